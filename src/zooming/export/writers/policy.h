#ifndef ZL_H
#define ZL_H

#include <stdint.h>

#define ZL_HORIZON @horizon
#define ZL_N_STATE @n_state
#define ZL_N_ACTION @n_action

@arrays

/* Write the action of `state` (@n_state numbers@unit) to `action` (@n_action).
 * Steps count from 0. Return 0, or -1 if the step is outside the episode: nothing is written. */
static inline int zl_act(int step, const @number *state, @action *action)
{
@if grid
    volatile double product; /* volatile: no compiler fuses it with a sum */
    double x[ZL_N_STATE], mixed[ZL_N_ACTION];
    int entry[ZL_N_STATE], i, k;
    int32_t cell = 0;
    const @piece *piece;
@else
@if squash
    double x[ZL_N_STATE];
@end
    int32_t at;
    int i;
@end
    if (step < 0 || step >= ZL_HORIZON) {
        return -1;
    }
@if reads
    for (i = 0; i < ZL_N_STATE; ++i) {
        x[i] = @read;
    }
@end
@if squash
    for (i = 0; i < @n_squash; ++i) {
        const double *map = zl_squash[i];
        const double z = (x[(int)map[0]] - map[1]) / map[2];
        x[(int)map[0]] = map[3] + map[4] * (z / (1.0 + (z < 0.0 ? -z : z)));
    }
@end
@if grid
    for (i = 0; i < ZL_N_STATE; ++i) {
        int low = zl_first[i], high = zl_first[i + 1];
        x[i] = (x[i] - zl_low[i]) / zl_width[i];
        cell = cell * (high - low) - low;
        while (high - low > 1) { /* find the bin */
            const int middle = (low + high) / 2;
            if (x[i] >= zl_border[middle]) {
                low = middle;
            } else {
                high = middle;
            }
        }
        cell += low;
        entry[i] = low;
    }
    piece = zl_pieces[zl_cells[zl_plan[step]][cell]];
    for (k = 0; k < ZL_N_ACTION; ++k) {
        mixed[k] = zl_points[piece[0]][k];
    }
    for (i = ZL_N_STATE - 1; i >= 0; --i) { /* mix with the neighbor on the state's side */
        const double center = zl_center[entry[i]], away = x[i] - center;
        const int side = away > 0.0;
        double gap, weight;
        if (piece[1 + 2 * i + side] == piece[0]) {
            continue;
        }
        gap = side ? zl_center[entry[i] + 1] - center : center - zl_center[entry[i] - 1];
        weight = (side ? away : -away) / gap;
        for (k = 0; k < ZL_N_ACTION; ++k) {
            if (zl_is_mixed[k]) {
                product = weight * (zl_points[piece[1 + 2 * i + side]][k]
                                    - zl_points[piece[0]][k]);
                mixed[k] += product;
            }
        }
    }
    for (k = 0; k < ZL_N_ACTION; ++k) {
        double point = mixed[k], value;
        if (point < zl_point_low[k]) {
            point = zl_point_low[k];
        }
        if (point > zl_point_high[k]) {
            point = zl_point_high[k];
        }
        product = point * zl_action_width[k];
        value = zl_action_low[k] + product;
@if whole
        if (zl_n_values[k]) {
            int32_t number = (int32_t)(point * zl_n_values[k]);
            if (number > zl_n_values[k] - 1) {
                number = zl_n_values[k] - 1;
            }
            value = zl_action_low[k] + 0.5 + number;
        }
@end
@if unsquash
        for (i = 0; i < @n_action_squash; ++i) {
            const double *map = zl_action_squash[i];
            if ((int)map[0] == k) {
                const double share = (value - map[3]) / map[4];
                double rest = 1.0 - (share < 0.0 ? -share : share);
                if (rest < @nearest) {
                    rest = @nearest;
                }
                product = share / rest * map[2];
                value = map[1] + product;
            }
        }
@end
@if clip
        if (value < zl_action_least[k]) {
            value = zl_action_least[k];
        }
        if (value > zl_action_most[k]) {
            value = zl_action_most[k];
        }
@end
@if single
        if (zl_is_single[k]) {
            value = (double)(float)value;
        }
@end
        action[k] = @value;
    }
@else
    at = zl_roots[step];
    while (at >= 0) { /* the number of a comparison; a negative number is an action */
        at = @x[zl_axis[at]] >= zl_threshold[at] ? zl_right[at] : zl_left[at];
    }
    for (i = 0; i < ZL_N_ACTION; ++i) {
        action[i] = zl_actions[-1 - at][i];
    }
@end
    return 0;
}

#endif
