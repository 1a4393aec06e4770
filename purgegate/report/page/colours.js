"use strict";
// Colours of points, as numbers from 0 to 255.
const colours = (() => {
  const VIRIDIS = ["440154", "482475", "414487", "355f8d", "2a788e", "21918c", "22a884", "44bf70", "7ad151", "bddf26", "fde725"];
  const hex = (text) => [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16));
  const STEPS = VIRIDIS.map(hex);
  const [KEPT, STRAY, MADE, FILE] = ["3b82c4", "e5484d", "44aa99", "8c959f"].map(hex);
  return {
    VIRIDIS, KEPT, STRAY, MADE, FILE,
    along(share) {
      const at = Math.max(0, Math.min(1, share)) * (STEPS.length - 1), low = Math.min(Math.floor(at), STEPS.length - 2);
      return STEPS[low].map((value, part) => value + (STEPS[low + 1][part] - value) * (at - low));
    },
    // By golden sections: neighbours in number are far apart in hue. None is the red of what was purged.
    hue(number) {
      const degrees = 50 + 260 * ((number * 0.618034) % 1);
      const part = (shift) => 128 + 100 * Math.cos(((degrees - shift) * Math.PI) / 180);
      return [part(0), part(120), part(240)];
    },
    paper() {
      const digits = theme.color("page").match(/[0-9a-f]/gi);
      return hex(digits.length === 3 ? digits.map((digit) => digit + digit).join("") : digits.join(""));
    },
  };
})();
