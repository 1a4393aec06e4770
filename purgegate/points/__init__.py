"""Functions of raw points: sampling, neighbours, patches, transforms, shapes, corruptions."""
