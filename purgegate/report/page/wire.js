"use strict";
// What comes from Python: arrays packed as text, and answers of the page's own server.
const wire = {
  ARRAYS: { float32: Float32Array, uint16: Uint16Array, uint8: Uint8Array },
  unpack(packed) {
    if (!packed) return null;
    const bytes = Uint8Array.from(atob(packed.data), (letter) => letter.charCodeAt(0));
    return new wire.ARRAYS[packed.type](bytes.buffer);
  },
  async ask(what, settings) {
    const answer = await fetch(`${what}?${new URLSearchParams(settings)}`);
    const told = await answer.json();
    if (!answer.ok) throw new Error(told.error);
    return told;
  },
};
