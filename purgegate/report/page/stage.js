"use strict";
// Points in 3D on a plain canvas, with a depth buffer of its own: thousands of round, shaded points, the same pixels on
// every machine, and no WebGL, which Plotly's clouds need and are slow with where there is no GPU (docs/view.md).
class Stage {
  static NEAR = 3.4; // where the eye is, in radii of the cloud
  static START = { yaw: 0.6, pitch: 0.45, zoom: 0.93 };
  static BEHIND = 0.06; // so much farther away counts what lets through: it hides no point that lies beside it

  // A `still` stage does not listen to hands.
  constructor(canvas, { still = false } = {}) {
    this.canvas = canvas;
    this.view = { ...Stage.START };
    this.groups = [];
    this.paper = [255, 255, 255];
    this.frames = 0;
    this.pointers = new Map();
    if (!still) this.listen();
    new ResizeObserver(() => this.schedule()).observe(canvas);
  }

  // Groups of points: { points: x y z …, colors: r g b …, radius, opacity }; those that let through go last.
  show(groups, paper) {
    this.groups = [...groups].sort((one, other) => other.opacity - one.opacity);
    this.paper = paper;
    this.schedule();
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  draw() {
    const ratio = Math.min(devicePixelRatio || 1, 2), { canvas } = this;
    const width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height || !this.image) {
      Object.assign(canvas, { width, height });
      this.context = canvas.getContext("2d");
      this.image = this.context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.depth = new Float32Array(width * height);
    }
    this.pixels.fill(0);
    this.depth.fill(-Infinity);
    for (const group of this.groups) this.splat(group, width, height);
    this.context.putImageData(this.image, 0, 0);
    this.frames += 1;
  }

  splat({ points, colors, radius, opacity }, width, height) {
    const { yaw, pitch, zoom } = this.view;
    const [sy, cy, sp, cp] = [Math.sin(yaw), Math.cos(yaw), Math.sin(pitch), Math.cos(pitch)];
    const scale = 0.5 * Math.min(width, height) * zoom, bytes = this.image.data, solid = opacity === 1;
    for (let i = 0; i < points.length; i += 3) {
      const x = points[i] * cy + points[i + 1] * sy, away = points[i + 1] * cy - points[i] * sy;
      const up = points[i + 2] * cp + away * sp, near = points[i + 2] * sp - away * cp;
      const shrink = Stage.NEAR / (Stage.NEAR - near);
      if (!(shrink > 0)) continue; // behind the eye
      const px = width / 2 + x * scale * shrink, py = height / 2 - up * scale * shrink;
      const reach = Math.max(0.8, radius * scale * shrink), square = reach * reach;
      const depth = solid ? near : near - Stage.BEHIND;
      const light = Math.max(0.5, Math.min(1, 0.82 + 0.28 * near)); // far points fade into the paper
      const left = Math.max(0, Math.ceil(px - reach)), right = Math.min(width - 1, Math.floor(px + reach));
      const bottom = Math.min(height - 1, Math.floor(py + reach));
      for (let row = Math.max(0, Math.ceil(py - reach)); row <= bottom; row += 1) {
        for (let column = left; column <= right; column += 1) {
          const away = ((column - px) ** 2 + (row - py) ** 2) / square, place = row * width + column;
          if (away > 1 || this.depth[place] > depth) continue;
          if (solid) this.depth[place] = depth;
          const shade = 1 - 0.35 * away;
          const covered = bytes[4 * place + 3] ? 1 : 0;
          for (let part = 0; part < 3; part += 1) {
            const own = this.paper[part] + (colors[i + part] * shade - this.paper[part]) * light;
            const under = covered ? bytes[4 * place + part] : this.paper[part];
            bytes[4 * place + part] = own * opacity + under * (1 - opacity);
          }
          bytes[4 * place + 3] = 255;
        }
      }
    }
  }

  turn(yaw, pitch, zoom = 1) {
    this.view.yaw += yaw;
    this.view.pitch = Math.max(-1.57, Math.min(1.57, this.view.pitch + pitch));
    this.view.zoom = Math.max(0.3, Math.min(12, this.view.zoom * zoom));
    this.schedule();
  }

  listen() {
    const { canvas, pointers } = this;
    const spread = () => {
      const [one, other] = [...pointers.values()];
      return Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, event);
    });
    canvas.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const before = pointers.size === 2 ? spread() : 0;
      pointers.set(event.pointerId, event);
      if (before) this.turn(0, 0, spread() / before);
      else if (pointers.size === 1) this.turn((last.clientX - event.clientX) / 120, (event.clientY - last.clientY) / 120);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.turn(0, 0, Math.exp(-event.deltaY / 600));
    }, { passive: false });
    canvas.addEventListener("dblclick", () => { this.view = { ...Stage.START }; this.schedule(); });
  }
}
