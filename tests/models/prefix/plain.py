"""Plain versions of the features of the prefix model, with explicit loops."""

import numpy as np


def kernel_outputs(u, dilation, taps):
    """Outputs (8, T) of the kernels of a group on a series u (T,)."""
    out = np.empty((len(taps), len(u)))
    for t in range(len(u)):
        window = [u[max(0, t - (8 - j) * dilation)] for j in range(9)]
        for k, three in enumerate(taps):
            out[k, t] = sum((2 if j in three else -1) * window[j] for j in range(9))
    return out


def pools(block, x, times):
    """Pools (G, B, Q, 4, 8) of series x (B, T, C)."""
    found = np.zeros((len(times), len(x), block.groups, 4, 8))
    for b, series in enumerate(x.astype(np.float64)):
        if block.differences:
            series = np.diff(series, axis=0, prepend=series[:1])
        for q in range(block.groups):
            members = block.members[q][block.members[q] >= 0]
            outputs = kernel_outputs(series[:, members].sum(axis=1), block.dilations[q], block.taps[q])
            for g, t in enumerate(times):
                seen = outputs[:, :t]
                over = seen - block.biases[q][:, None]
                found[g, b, q, 0] = (over > 0).mean(axis=1)
                found[g, b, q, 1] = np.maximum(over, 0).mean(axis=1)
                for s in range(t):
                    found[g, b, q, 2, seen[:, s].argmax()] += seen[:, s].max() / t
                    found[g, b, q, 3, seen[:, s].argmin()] += 1 / t
    return found


def statistics(x, times, levels, products, recent):
    """Statistics by kind, each (G, B, ·), of series x (B, T, C)."""
    found = {"levels": [], "moments": [], "last": []}
    for t in times:
        rows = {name: [] for name in found}
        for series in x.astype(np.float64):
            seen = series[:t] @ levels
            rows["levels"].append(
                np.concatenate([seen[-1], seen.mean(0), seen.std(0), seen.min(0), seen.max(0)])
            )
            z = series[:t] @ products
            same = np.mean([np.outer(one, one) for one in z], axis=0)
            lagged = np.mean([np.outer(z[s], z[max(s - 1, 0)]) for s in range(t)], axis=0)
            rows["moments"].append(np.concatenate([same[np.triu_indices(len(same))], lagged.ravel()]))
            rows["last"].append(np.concatenate([series[max(t - 1 - i, 0)] for i in range(recent)] or [[]]))
        for name in found:
            found[name].append(rows[name])
    return {name: np.array(values) for name, values in found.items()}
