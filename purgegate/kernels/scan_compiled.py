"""The loops of the selective scan and of its gradient, compiled for the CPU at hand.

Letters: L places in a sequence, E channels, n states a channel. Channels come last and in blocks of BLOCK, so
that the innermost loops have a fixed length over neighbours in memory. `a` is A in powers of two.
"""

import math
from typing import no_type_check

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic

BLOCK = 64  # channels at a time: 128 and 32 are slower
LN2 = np.float32(math.log(2))

# 2^r for |r| ≤ ½, exact at 0 and elsewhere within 1e-7: the polynomial of least greatest relative error. The
# compiler makes vector instructions of it, while np.exp is a call of the C library for each number.
C1, C2, C3, C4, C5 = (
    np.float32(x) for x in (0.693147004, 0.240222424, 0.0555073358, 0.00967151299, 0.00132647273)
)
ROUND = np.float32(1.5 * 2**23)  # a sum with this is rounded to a whole number, which stands in its last bits
LEAST = np.float32(-126)  # two to this is as good as zero
SUMS = {"contract", "nsz", "reassoc"}  # sums in any order; NaN stays NaN


@no_type_check
@intrinsic
def _times_power(_, number, rounded):
    """The number times two to the power that stands in the last bits of `rounded`."""

    def generate(_, builder, __, arguments):
        whole = ir.IntType(32)
        bits, power = (builder.bitcast(x, whole) for x in arguments)
        raised = builder.add(bits, builder.shl(power, ir.Constant(whole, 23)))
        return builder.bitcast(raised, ir.FloatType())

    return types.float32(types.float32, types.float32), generate


# Sums in their order here: the compiler would cancel ROUND.
@no_type_check
@njit(nogil=True, fastmath={"contract"})
def _exp2(x):
    x = max(x, LEAST)
    rounded = x + ROUND
    r = x - (rounded - ROUND)
    return _times_power(np.float32(1) + r * (C1 + r * (C2 + r * (C3 + r * (C4 + r * C5)))), rounded)


@no_type_check
@njit(nogil=True, cache=True, fastmath=SUMS)
def scan(a, d, u, delta, b, c, y):
    """Fill y (B, L, E) from a (n, E), d (E), u and delta (B, L, E), b and c (B, L, n)."""
    states = a.shape[0]
    own, h = np.empty((states, BLOCK), np.float32), np.empty((states, BLOCK), np.float32)
    step, entering, out = (
        np.empty(BLOCK, np.float32),
        np.empty(BLOCK, np.float32),
        np.empty(BLOCK, np.float32),
    )
    for cloud in range(u.shape[0]):
        for first in range(0, u.shape[2], BLOCK):
            own[:] = a[:, first : first + BLOCK]
            h[:] = 0
            for t in range(u.shape[1]):
                for e in range(BLOCK):
                    step[e] = delta[cloud, t, first + e]
                    entering[e] = step[e] * u[cloud, t, first + e]
                    out[e] = d[first + e] * u[cloud, t, first + e]
                for n in range(states):
                    bn, cn = b[cloud, t, n], c[cloud, t, n]
                    for e in range(BLOCK):
                        state = _exp2(step[e] * own[n, e]) * h[n, e] + entering[e] * bn
                        h[n, e] = state
                        out[e] += state * cn
                y[cloud, t, first : first + BLOCK] = out


@no_type_check
@njit(nogil=True, cache=True, fastmath=SUMS)
def scan_backward(a, d, u, delta, b, c, grad_y, grad_u, grad_delta, grad_b, grad_c, grad_a, grad_d):
    """Fill or add up the gradients of `scan`; those of a and d are kept apart for each cloud."""
    length, states = u.shape[1], a.shape[0]
    decay = np.empty((length, states, BLOCK), np.float32)
    h = np.zeros((length + 1, states, BLOCK), np.float32)
    for cloud in range(u.shape[0]):
        for first in range(0, u.shape[2], BLOCK):
            own = np.ascontiguousarray(a[:, first : first + BLOCK])
            _run(own, u[cloud], delta[cloud], b[cloud], first, decay, h)
            inputs = own, u[cloud], delta[cloud], b[cloud], c[cloud], grad_y[cloud]
            gradients = grad_u[cloud], grad_delta[cloud], grad_b[cloud], grad_c[cloud]
            grad_a[cloud, :, first : first + BLOCK] = _rewind(*inputs, *gradients, first, decay, h)
            for t in range(length):
                for e in range(first, first + BLOCK):
                    grad_u[cloud, t, e] += d[e] * grad_y[cloud, t, e]
                    grad_d[cloud, e] += u[cloud, t, e] * grad_y[cloud, t, e]


@no_type_check
@njit(nogil=True, fastmath=SUMS)
def _run(own, u, delta, b, first, decay, h):
    """Fill the decays and states of one cloud and block: h[t + 1] is the state behind place t."""
    step, entering = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for t in range(u.shape[0]):
        for e in range(BLOCK):
            step[e] = delta[t, first + e]
            entering[e] = step[e] * u[t, first + e]
        for n in range(own.shape[0]):
            bn = b[t, n]
            for e in range(BLOCK):
                kept = _exp2(step[e] * own[n, e])
                decay[t, n, e] = kept
                h[t + 1, n, e] = kept * h[t, n, e] + entering[e] * bn


@no_type_check
@njit(nogil=True, fastmath=SUMS)
def _rewind(own, u, delta, b, c, grad_y, grad_u, grad_delta, grad_b, grad_c, first, decay, h):
    """From the last place to the first: gradients of one cloud and block; that of A is returned."""
    states = own.shape[0]
    grad_h, grad_own = np.zeros((states, BLOCK), np.float32), np.zeros((states, BLOCK), np.float32)
    step, entering, grad_out = (
        np.empty(BLOCK, np.float32),
        np.empty(BLOCK, np.float32),
        np.empty(BLOCK, np.float32),
    )
    grad_entering, grad_step = np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    for t in range(u.shape[0] - 1, -1, -1):
        for e in range(BLOCK):
            step[e] = delta[t, first + e]
            entering[e] = step[e] * u[t, first + e]
            grad_out[e] = grad_y[t, first + e]
            grad_entering[e] = 0
            grad_step[e] = 0
        for n in range(states):
            bn, cn, grad_bn, grad_cn = b[t, n], c[t, n], np.float32(0), np.float32(0)
            for e in range(BLOCK):
                grad_state = grad_h[n, e] + grad_out[e] * cn
                grad_bn += grad_state * entering[e]
                grad_cn += grad_out[e] * h[t + 1, n, e]
                grad_entering[e] += grad_state * bn
                kept = grad_state * decay[t, n, e]
                grad_h[n, e] = kept
                grad_exponent = kept * h[t, n, e]
                grad_step[e] += grad_exponent * own[n, e]
                grad_own[n, e] += grad_exponent * step[e]
            grad_b[t, n] += grad_bn
            grad_c[t, n] += grad_cn
        for e in range(BLOCK):
            grad_u[t, first + e] = grad_entering[e] * step[e]
            grad_delta[t, first + e] = grad_entering[e] * u[t, first + e] + grad_step[e] * LN2
    return grad_own
