"""Point-MAE and PG-SP written plainly, as published: what the fast code must equal and beat.

Every purge size repeats the whole forward; the patch embedding builds the concatenation; attention is two
matrix products with a softmax between. Weights carry the published names, so a state dict of ours fits.
"""

import torch
from torch import Tensor, nn


class PlainPointMAE(nn.Module):
    """The published classifier, layer by layer."""

    def __init__(
        self, *, classes: int, width: int, depth: int, heads: int, groups: int, group_size: int
    ) -> None:
        super().__init__()
        self.groups, self.group_size = groups, group_size
        self.encoder = PlainEmbed(width)
        self.pos_embed = nn.Sequential(nn.Linear(3, 128), nn.GELU(), nn.Linear(128, width))
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.cls_pos = nn.Parameter(torch.zeros(1, 1, width))
        self.blocks = nn.Module()
        self.blocks.blocks = nn.ModuleList(PlainBlock(width, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.class_head = nn.Sequential(
            *(nn.Linear(2 * width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5)),
            *(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.5)),
            nn.Linear(256, classes),
        )

    def forward(
        self, points: Tensor, *, mean: Tensor | None = None, std: Tensor | None = None, size: int = 0
    ) -> Tensor:
        """Logits after dropping the `size` tokens farthest from the source statistics."""
        centers, patches = self.group(points)
        x, pos = self.encoder(patches), self.pos_embed(centers)
        if size:
            z = x + pos
            z = (z - z.mean(-1, keepdim=True)) / (z.std(-1, keepdim=True) + 1e-6)
            distance = (((z - mean) ** 2) / std**2).sum(-1).sqrt()
            kept = distance.argsort(dim=1)[:, : x.shape[1] - size].sort(dim=1).values
            x = torch.stack([row[index] for row, index in zip(x, kept, strict=True)])
            pos = torch.stack([row[index] for row, index in zip(pos, kept, strict=True)])
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        pos = torch.cat([self.cls_pos.expand(len(pos), -1, -1), pos], dim=1)
        for block in self.blocks.blocks:
            x = block(x + pos)
        x = self.norm(x)
        return self.class_head(torch.cat([x[:, 0], x[:, 1:].max(1)[0]], dim=-1))

    def group(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Centres and their neighbours."""
        rows = torch.arange(len(points))
        nearest, last, chosen = (
            torch.full(points.shape[:2], torch.inf),
            torch.zeros(len(points), dtype=torch.long),
            [],
        )
        for _ in range(self.groups):
            chosen.append(last)
            nearest = torch.minimum(nearest, ((points - points[rows, last][:, None]) ** 2).sum(-1))
            last = nearest.argmax(1)
        centers = points[rows[:, None], torch.stack(chosen, 1)]
        distance = ((centers[:, :, None] - points[:, None]) ** 2).sum(-1)
        index = distance.topk(self.group_size, largest=False).indices
        return centers, points[rows[:, None, None], index] - centers[:, :, None]


class PlainEmbed(nn.Module):
    """The published mini-PointNet, with convolutions of kernel size 1 and the concatenation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first_conv = nn.Sequential(
            nn.Conv1d(3, 128, 1), nn.BatchNorm1d(128), nn.ReLU(), nn.Conv1d(128, 256, 1)
        )
        self.second_conv = nn.Sequential(
            nn.Conv1d(512, 512, 1), nn.BatchNorm1d(512), nn.ReLU(), nn.Conv1d(512, width, 1)
        )

    def forward(self, patches: Tensor) -> Tensor:
        """One token a patch."""
        batch, groups, size, _ = patches.shape
        x = self.first_conv(patches.reshape(batch * groups, size, 3).transpose(2, 1))
        whole = x.max(dim=2, keepdim=True)[0]
        x = self.second_conv(torch.cat([whole.expand(-1, -1, size), x], dim=1))
        return x.max(dim=2)[0].reshape(batch, groups, -1)


class PlainBlock(nn.Module):
    """A pre-norm transformer block with explicit attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = nn.Module(), nn.Module()
        self.attn.qkv, self.attn.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp.fc1, self.mlp.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        batch, count, width = x.shape
        qkv = self.attn.qkv(self.norm1(x)).reshape(batch, count, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(dim=-1)
        x = x + self.attn.proj((weights @ v).transpose(1, 2).reshape(batch, count, width))
        return x + self.mlp.fc2(nn.functional.gelu(self.mlp.fc1(self.norm2(x))))


def plain_copy(model: nn.Module) -> PlainPointMAE:
    """The plain twin of one of our models, with the same weights, in evaluation mode."""
    names = "classes", "width", "depth", "heads", "groups", "group_size"
    plain = PlainPointMAE(**{name: model.config[name] for name in names})
    shapes = {key: value.shape for key, value in plain.state_dict().items()}
    plain.load_state_dict({key: value.reshape(shapes[key]) for key, value in model.state_dict().items()})
    return plain.eval()


def reset_batch_norm(model: nn.Module) -> None:
    """Let every BatchNorm use the batch's statistics in evaluation mode, as the published code does."""
    for layer in model.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.running_mean = layer.running_var = None


def plain_purge(
    model: PlainPointMAE, points: Tensor, *, mean: Tensor, std: Tensor, purge: tuple[int, ...]
) -> Tensor:
    """Logits (B, S, C): one whole forward for each purge size."""
    with torch.no_grad():
        return torch.stack([model(points, mean=mean, std=std, size=size) for size in purge], dim=1)
