#ifndef ZL_H
#define ZL_H
#include <stddef.h>
#include <stdint.h>
@if real
#include <math.h> /* sqrt, INFINITY */
@end
@constants
enum { /* errors */
    ZL_BAD_STEP = -1, ZL_BAD_STATE = -2, ZL_BAD_ACTION = -3, ZL_BAD_REWARD = -4, /* out of range, or NaN */
    ZL_BAD_BLOCK = -5, /* no whole slot of this header */
    ZL_BAD_TICKET = -6 /* unknown, answered, or overwritten */
};
enum { ZL_RANDOM, ZL_FIRST, ZL_EITHER }; /* ties */
#ifndef ZL_PUT /* define both to keep blocks in EEPROM */
#define ZL_PUT(place, byte) (*(place) = (byte))
#define ZL_GET(place) (*(place))
#endif
#ifndef ZL_TICK /* define it to count the rows that are read */
#define ZL_TICK ((void)0)
#endif
@types
@tables

/* A binary tree for every ZL_TOGETHER steps in a row. The rows 0 to ZL_TREES - 1 are their roots.
 * Siblings are rows 2i and 2i + 1. A row without children is a ball; any other row is an inner row,
 * and is cut in two along one axis. */
typedef struct {
    zl_value value;        /* Q of a ball; of an inner row, the largest Q below it */
    zl_word visits;        /* of a ball: n; of an inner row: its cut, times ZL_ONE */
    zl_word last;          /* of a ball: episode of its last visit; else the first child */
    uint8_t cuts[ZL_KEPT]; /* of a ball: cuts along each axis; else a mark and the axis */
    uint8_t up;            /* half of the parent of two siblings, the low one first; see zl_parent */
} zl_row;
typedef struct {
    zl_random random; /* state of the generator */
@if shared
    zl_wide mean;     /* recent mean reward of a step */
@end
    uint32_t episode; /* episodes begun */
@if pending
    zl_number asked_point[ZL_PENDING][ZL_N_AXES]; /* a ring of decisions without rewards */
    uint16_t asked[ZL_PENDING], asked_step[ZL_PENDING], next_ticket; /* asked: ticket + 1, or 0 */
@end
    uint16_t n_rows, n_balls; /* rows in use, and balls of all steps together */
    zl_row rows[ZL_ROWS];
} zl_learner;
typedef struct { /* which balls to visit, see zl_next */
    zl_wide above;            /* their Q is larger, or as large if ties are broken at random */
    int ties;
    unsigned given, n;        /* axes with a coordinate, one bit each; rows on the stack */
    uint16_t stack[ZL_STACK]; /* rows that were not visited yet */
    zl_unit at[ZL_N_AXES];    /* the coordinates */
} zl_query;
typedef union { zl_value value; zl_raw bits; } zl_bits;
typedef char zl_has_the_stated_size[sizeof(zl_learner) <= ZL_BYTES ? 1 : -1];
@rows
@if int
/* Cuts are packed in halves of bytes, the low half first. */
static inline int zl_is_inner(const zl_learner *z, unsigned row) { return (z->rows[row].cuts[0] & 15) == 15; }
static inline int zl_axis(const zl_learner *z, unsigned row) { return z->rows[row].cuts[0] >> 4; }
static inline int zl_cuts(const zl_learner *z, unsigned row, int axis) {
    return z->rows[row].cuts[axis / 2] >> 4 * (axis % 2) & 15;
}
static inline uint32_t zl_draw(zl_learner *z) { /* xorshift */
    z->random ^= z->random << 13, z->random ^= z->random >> 17;
    return z->random ^= z->random << 5;
}
static inline uint32_t zl_root(uint32_t n) { /* sqrt(n) of 24 bits, rounded down */
    uint32_t root = 0, bit;
    for (bit = 2048; bit; bit /= 2)
        if ((root + bit) * (root + bit) <= n) root += bit;
    return root;
}
@else
static inline int zl_is_inner(const zl_learner *z, unsigned row) { return z->rows[row].cuts[0] >> 7; }
static inline int zl_axis(const zl_learner *z, unsigned row) { return z->rows[row].cuts[0] & 127; }
static inline int zl_cuts(const zl_learner *z, unsigned row, int axis) { return z->rows[row].cuts[axis]; }
static inline uint64_t zl_draw(zl_learner *z) { /* SplitMix64 */
    uint64_t x = z->random += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}
@end
/* Convert n coordinates to the unit cube, from an axis on. Return 0 if one is bad. */
static inline int zl_read(const zl_number *point, int axis, int n, zl_query *q) {
    for (n += axis; axis < n; ++axis) {
@if int
        int32_t x = *point++;
        uint32_t u;
@if clips
        if (zl_clips[axis]) x = x < zl_low[axis] ? zl_low[axis] : x > zl_high[axis] ? zl_high[axis] : x;
@end
        if (x < zl_low[axis] || x > zl_high[axis]) return 0;
        u = ((uint32_t)(x - zl_low[axis]) << 16) / (uint32_t)(zl_high[axis] - zl_low[axis]);
        q->at[axis] = (zl_unit)(u > 65535u ? 65535u : u);
@else
        const zl_unit u = (*point++ - zl_low[axis]) / zl_width[axis];
@if clips
        if (!(zl_clips[axis] ? u - u == 0 : u >= -ZL_TOLERANCE && u <= 1 + ZL_TOLERANCE)) return 0;
@else
        if (!(u >= -ZL_TOLERANCE && u <= 1 + ZL_TOLERANCE)) return 0; /* NaN is bad, too */
@end
        q->at[axis] = u < 0 ? 0 : u > 1 ? 1 : u; /* rounding outside a bound is clipped */
@end
    }
    return 1;
}
/* Return the row above two siblings, or ZL_ROWS for roots. */
static inline unsigned zl_parent(const zl_learner *z, unsigned row) {
    const zl_row *const first = &z->rows[row & ~1u];
    return first[0].up | (unsigned)first[1].up << 8;
}
/* Note the parent of a row's two children. */
static inline void zl_adopt(zl_learner *z, unsigned row) {
    zl_row *const child = &z->rows[z->rows[row].last];
    child[0].up = (uint8_t)(row & 255u), child[1].up = (uint8_t)(row >> 8);
}
/* Begin a query below a row. */
static inline void zl_ask_for(zl_query *q, unsigned row, unsigned given, int ties) {
    q->above = ZL_LOWEST, q->ties = ties, q->given = given, q->n = 1, q->stack[0] = (uint16_t)row;
}
/* Return the next ball of a query, or ZL_ROWS: branch and bound. If both children of a row are
 * relevant, the better one comes first, or the first one if ties are broken in this order. */
static inline unsigned zl_next(const zl_learner *z, zl_query *q) {
    while (q->n) {
        unsigned row = q->stack[--q->n];
        for (;;) {
            const zl_row *const here = &z->rows[row];
            const int axis = zl_axis(z, row);
            ZL_TICK;
            if (here->value < q->above || (here->value == q->above && q->ties != ZL_RANDOM)) break;
            if (zl_is_inner(z, row) == 0) return row;
            row = here->last;
            if (q->given >> axis & 1u) row += q->at[axis] >= ZL_AT(here->visits);
            else {
                row += q->ties != ZL_FIRST && z->rows[row + 1].value > z->rows[row].value;
                if (q->n < ZL_STACK) q->stack[q->n++] = (uint16_t)(row ^ 1u);
            }
        }
    }
    return ZL_ROWS;
}
/* Return the ball with the largest Q for the state of a query. Ties are broken at random, or in the
 * order of the balls, or by whichever is found first. */
static inline unsigned zl_select(zl_learner *z, int step, int ties, zl_query *q) {
    unsigned row, found = ZL_ROWS;
    uint32_t n_tied = 1;
    zl_ask_for(q, (unsigned)step / ZL_TOGETHER, (1u << ZL_N_STATE) - 1u, ties);
    while ((row = zl_next(z, q)) != ZL_ROWS) {
        if (z->rows[row].value > q->above) q->above = z->rows[row].value, n_tied = 1;
        else if (zl_draw(z) % ++n_tied) continue;
        found = row;
    }
    return found;
}
/* Return the upper end of a row's box along an axis, plus the lower end times `sign`, in units of
 * 1 / ZL_ONE. */
static inline uint32_t zl_ends(const zl_learner *z, unsigned row, int axis, uint32_t sign) {
    uint32_t low = 0, high = ZL_ONE;
    unsigned up;
    for (; (up = zl_parent(z, row)) != ZL_ROWS; row = up) {
        const uint32_t cut = z->rows[up].visits;
        ZL_TICK;
        if (zl_axis(z, up) != axis) continue;
        if (row & 1u) low = cut > low ? cut : low;
        else high = cut < high ? cut : high;
    }
    return high + sign * low;
}
/* Write the center of a ball's actions. */
static inline void zl_play(const zl_learner *z, unsigned row, zl_number *action) {
    int axis;
@if real
    volatile zl_unit from_low; /* volatile: no compiler fuses a product with a sum */
@end
    for (axis = ZL_N_STATE; axis < ZL_N_AXES; ++axis, ++action) {
        const uint32_t twice = zl_ends(z, row, axis, 1);
@if int
        *action = zl_low[axis] + (int32_t)(twice / 2 * (uint32_t)(zl_high[axis] - zl_low[axis]) >> 16);
@else
        from_low = (zl_unit)twice / (2 * ZL_ONE) * zl_width[axis];
        *action = zl_low[axis] + from_low;
@if single
        if (zl_is_single[axis - ZL_N_STATE]) *action = (float)*action;
@end
@end
    }
}
/* Restore the largest Q below each row above `row`. */
static inline void zl_climb(zl_learner *z, unsigned row) {
    zl_value value;
    while ((row = zl_parent(z, row)) != ZL_ROWS) {
        const zl_row *const child = &z->rows[z->rows[row].last];
        ZL_TICK;
        value = child[0].value > child[1].value ? child[0].value : child[1].value;
        if (z->rows[row].value == value) return;
        z->rows[row].value = value;
    }
}
/* Cut a ball in two. The parts are the rows `pair` and `pair` + 1. They inherit Q and n. */
static inline void zl_cut(zl_learner *z, unsigned row, int axis, unsigned pair) {
    zl_row *const part = &z->rows[pair];
    part[0] = z->rows[row];
@if int
    part->cuts[axis / 2] = (uint8_t)(part->cuts[axis / 2] + (1 << 4 * (axis % 2)));
    z->rows[row].cuts[0] = (uint8_t)(15 | axis << 4);
@else
    part->cuts[axis] = (uint8_t)(part->cuts[axis] + 1);
    z->rows[row].cuts[0] = (uint8_t)(128 | axis);
@end
    part[1] = part[0];
    z->rows[row].visits = (zl_word)(zl_ends(z, row, axis, 1) / 2);
    z->rows[row].last = (zl_word)pair;
    zl_adopt(z, row);
}
static inline uint32_t zl_age(const zl_learner *z, unsigned row) {
    return (zl_word)(z->episode - z->rows[row].last) + 1u;
}
/* Begin a query for the balls below `top` that touch the cut of a ball. Return the axis of the cut. */
static inline int zl_beside(const zl_learner *z, unsigned row, unsigned top, zl_query *q) {
    const int axis = zl_axis(z, zl_parent(z, row));
    zl_ask_for(q, top, 1u << axis, ZL_EITHER);
    q->at[axis] = (zl_unit)(row & 1u ? ZL_LAST : 0);
    return axis;
}
/* Return the ball that matters least, other than `kept`: the smallest width / age^2. The width is
 * that of its parent. The age is episodes since its last visit. If its removal would move the
 * actions of other balls, the youngest of them counts. */
static inline unsigned zl_least(const zl_learner *z, unsigned kept) {
    unsigned row, ball, found = ZL_ROWS;
    zl_score width, square, least_width = 1, least_square = 0; /* 1 / 0: any ball is less */
    for (row = 0; row < z->n_rows; ++row) {
        const unsigned up = zl_parent(z, row);
        uint32_t age = zl_age(z, row);
        zl_query q;
        int axis;
        ZL_TICK;
        if (up == ZL_ROWS || row == kept || zl_is_inner(z, row)) continue;
        axis = zl_beside(z, row, row ^ 1u, &q);
        q.n = axis >= ZL_N_STATE; /* else no action would move */
        while ((ball = zl_next(z, &q)) != ZL_ROWS) age = zl_age(z, ball) < age ? zl_age(z, ball) : age;
        width = (zl_score)zl_ends(z, up, axis, 0u - 1u);
        square = (zl_score)age * (zl_score)age;
@if int
        if ((uint64_t)width * least_square < (uint64_t)least_width * square) /* without a division */
@else
        if (least_square == 0 || width / square < least_width / least_square)
@end
            least_width = width, least_square = square, found = row;
    }
    return found;
}
/* Remove a ball: its sibling's subtree takes the place of its parent. The balls that reach over its
 * domain get at least its Q, so V does not fall. Return the row of `kept`. */
static inline unsigned zl_remove(zl_learner *z, unsigned row, unsigned kept) {
    const unsigned up = zl_parent(z, row), other = row ^ 1u;
    const zl_value value = z->rows[row].value;
    const uint8_t half = z->rows[up].up;
    unsigned ball;
    zl_query q;
    zl_beside(z, row, up, &q);
    z->rows[up] = z->rows[other], z->rows[up].up = half;
    if (zl_is_inner(z, up)) zl_adopt(z, up);
    z->n_balls -= 1;
    zl_climb(z, up);
    while ((ball = zl_next(z, &q)) != ZL_ROWS) {
        if (z->rows[ball].value < value) z->rows[ball].value = value;
        zl_climb(z, ball);
    }
    return kept == other ? up : kept;
}
/* Split a ball of n visits, if it is due, along all of its longest sides: those that were cut least
 * often. If there is no room, cut it in two, after removing another ball if there is no room at all. */
static inline void zl_split(zl_learner *z, unsigned row, uint32_t n) {
    unsigned n_parts = 1, n_most = 1, pair = z->n_rows, removed, i;
    int axis, least = 255;
    for (axis = 0; axis < ZL_N_AXES; ++axis) {
        const int cuts = zl_cuts(z, row, axis);
        if (cuts < least) least = cuts, n_most = 1;
        if (cuts == least) n_most *= 2;
    }
    if (@not_due) return; /* it is due if n >= 4^least */
    if (z->n_balls == ZL_MAX_BALLS) {
        removed = zl_least(z, row);
        if (removed == ZL_ROWS) return; /* all balls are roots */
        row = zl_remove(z, removed, row);
        pair = removed & ~1u;
    }
    if (z->n_balls + n_most - 1 > ZL_MAX_BALLS) n_most = 2;
    for (axis = 0; n_parts < n_most; ++axis) {
        if (zl_cuts(z, row, axis) != least) continue;
        for (i = 0; i < n_parts; ++i, pair += 2) zl_cut(z, row + i, axis, pair);
        n_parts *= 2, row = pair - n_parts;
    }
    z->n_balls = (uint16_t)(z->n_balls + n_parts - 1);
    if (pair > z->n_rows) z->n_rows = (uint16_t)pair;
}
@if shared
/* Return what the later steps are expected to pay, times ZL_FINE, but the first ones of trees. */
static inline zl_wide zl_to_come(zl_wide mean, int step) {
    const int n_more = ZL_HORIZON - ZL_TREES - (step - step / ZL_TOGETHER);
@if int
    return mean * n_more;
@else
    volatile zl_wide product = mean * (zl_wide)n_more;
    return product;
@end
}
@end
static inline int zl_choose(zl_learner *z, int step, const zl_number *state, zl_number *action, int ties) {
    zl_query q;
    if (step < 0 || step >= ZL_HORIZON) return ZL_BAD_STEP;
    if (!zl_read(state, 0, ZL_N_STATE, &q)) return ZL_BAD_STATE;
    zl_play(z, zl_select(z, step, ties, &q), action);
    return 0;
}
/* Write the action to play while learning. */
static inline int zl_act(zl_learner *z, int step, const zl_number *state, zl_number *action) {
    return zl_choose(z, step, state, action, ZL_TIES);
}
/* Write the action to play without learning. */
static inline int zl_best(const zl_learner *z, int step, const zl_number *state, zl_number *action) {
    return zl_choose((zl_learner *)z, step, state, action, ZL_EITHER); /* which changes nothing */
}
/* Learn from one transition. After the last step, or if the environment terminated the episode,
 * `next_state` is not read. If an error is returned, nothing was learned. */
static inline int zl_learn(zl_learner *z, int step, const zl_number *state, const zl_number *action,
                           zl_number reward, const zl_number *next_state, int terminated) {
    zl_query q;
    zl_wide next_value = 0;
@if shared
    const zl_wide mean = z->mean / ZL_FINEST;
@end
    uint32_t row, n;@n_recent
    if (step < 0 || step >= ZL_HORIZON) return ZL_BAD_STEP;
@if refuse
    if (!(reward >= ZL_REWARD_LOW && reward <= ZL_REWARD_HIGH)) return ZL_BAD_REWARD;
@else
    if (!(reward - reward == 0)) return ZL_BAD_REWARD;
    reward = reward < ZL_REWARD_LOW ? ZL_REWARD_LOW : reward > ZL_REWARD_HIGH ? ZL_REWARD_HIGH : reward;
@end
    if (!zl_read(action, ZL_N_STATE, ZL_N_ACTION, &q)) return ZL_BAD_ACTION;
    if (!zl_read(state, 0, ZL_N_STATE, &q)) return ZL_BAD_STATE;
    zl_ask_for(&q, (unsigned)step / ZL_TOGETHER, (1u << ZL_N_AXES) - 1u, ZL_EITHER);
    row = zl_next(z, &q);
    if (!terminated && step + 1 < ZL_HORIZON) {
        if (!zl_read(next_state, 0, ZL_N_STATE, &q)) return ZL_BAD_STATE;
        next_value = z->rows[zl_select(z, step + 1, ZL_EITHER, &q)].value;
@if shared
        next_value += zl_to_come(mean, step + 1) / ZL_FINE;
@end
        next_value = next_value < zl_ceiling[step + 1] ? next_value : zl_ceiling[step + 1];
    }
    z->episode += step == 0;
@if int
    n = z->episode % z->n_rows; /* clocks have 16 bits: an age does not pass 32,768 for long */
    if (!zl_is_inner(z, n) && zl_age(z, n) > 32768) z->rows[n].last += 1;
@end
    n = z->rows[row].visits;
    n += n < ZL_MOST_VISITS;
    z->rows[row].visits = (zl_word)n, z->rows[row].last = (zl_word)z->episode;
@if int
    { /* Q += (H + 1) / (H + @recent) (r + V + c / sqrt(n) - Q), rounded up or down at random */
@if memory
        const uint32_t recent = n < ZL_MEMORY ? n : ZL_MEMORY;
@end
        const int32_t divisor = (int32_t)((ZL_HORIZON + @recent) * ZL_FINE);
        const int32_t bonus = (int32_t)(ZL_BONUS * 16 / zl_root(n << 8));
        const int32_t gap = (next_value - z->rows[row].value) * ZL_FINE@less_int;
        const int32_t change = (ZL_HORIZON + 1) * (ZL_REWARD(reward) + bonus + gap)
                               + (int32_t)(zl_draw(z) % (uint32_t)divisor);
        int32_t value = z->rows[row].value + change / divisor - (change % divisor < 0);
        value = value > 32767 ? 32767 : value;
        z->rows[row].value = (zl_value)(value < -32768 ? -32768 : value);
    }
@else
    { /* Q = (1 - rate) Q + rate (r + V + c / sqrt(n)) */
@if memory
        const uint32_t recent = n < ZL_MEMORY ? n : ZL_MEMORY;
@end
        const zl_value rate = (zl_value)(ZL_HORIZON + 1) / (zl_value)((uint64_t)ZL_HORIZON + @recent);
        const zl_value target = reward + @next_value + ZL_BONUS / ZL_SQRT((zl_value)n);
        volatile zl_value kept = (1 - rate) * z->rows[row].value, added = rate * target;
        z->rows[row].value = kept + added;
    }
@end
@if shared
    n_recent = z->episode > ZL_RECENT ? ZL_RECENT : z->episode ? (int)z->episode : 1;
    z->mean += (@paid - z->mean) / (zl_wide)(ZL_HORIZON * n_recent);
@end
    zl_climb(z, row);
    zl_split(z, row, n);
    return 0;
}
@if pending
/* Act, and keep the decision until its reward is known. Return a ticket, or an error. If ZL_PENDING
 * decisions are waiting, the oldest is forgotten. */
static inline int zl_ask(zl_learner *z, int step, const zl_number *state, zl_number *action) {
    const uint32_t ticket = z->next_ticket, at = ticket % ZL_PENDING;
    int i, code = zl_act(z, step, state, action);
    if (code) return code;
    z->next_ticket = (ticket + 1) & 0x7FFFu; /* fits an int of 16 bits */
    z->asked[at] = (uint16_t)(ticket + 1);
    z->asked_step[at] = (uint16_t)step;
    for (i = 0; i < ZL_N_AXES; ++i)
        z->asked_point[at][i] = i < ZL_N_STATE ? state[i] : action[i - ZL_N_STATE];
    return (int)ticket;
}
/* Learn from a decision of zl_ask, in any order. */
static inline int zl_tell(zl_learner *z, int ticket, zl_number reward, const zl_number *next_state,
                          int terminated) {
    const unsigned at = (unsigned)ticket % ZL_PENDING;
    int code = ZL_BAD_TICKET;
    if (ticket >= 0 && z->asked[at] == (unsigned)ticket + 1)
        code = zl_learn(z, z->asked_step[at], z->asked_point[at], z->asked_point[at] + ZL_N_STATE, reward,
                        next_state, terminated);
    if (code == 0) z->asked[at] = 0;
    return code;
}
@end
/* A block has two slots of ZL_SLOT bytes. A slot is, with the low byte first: "ZOOM", its length,
 * version and build (2 bytes each), sequence, facts about the problem, the learner, and CRC-32. */
typedef struct {
    unsigned char *to;         /* while writing; else NULL */
    const unsigned char *from; /* while reading */
    uint32_t crc, at;          /* at: bytes passed */
} zl_stream;
/* Write the n low bytes of a number, or read them. */
static inline zl_field zl_pass(zl_stream *s, int n, zl_field number) {
    zl_field found = 0;
    int i, k;
    for (i = 0; i < n; ++i, ++s->at) {
        unsigned char byte = (unsigned char)(number >> 8 * i & 255u);
        if (s->to) ZL_PUT(s->to + s->at, byte);
        else byte = ZL_GET(s->from + s->at);
        for (k = 0, s->crc ^= byte; k < 8; ++k) s->crc = s->crc >> 1 ^ (s->crc & 1u ? 0xEDB88320u : 0u);
        found |= (zl_field)byte << 8 * i;
    }
    return found;
}
/* Return the length of a slot if it is whole and of this header, else 0. Write its sequence. */
static inline uint32_t zl_check(const unsigned char *slot, uint32_t *sequence) {
    zl_stream s = {NULL, slot, 0xFFFFFFFFu, 0};
    const uint32_t is_ours = zl_pass(&s, 4, 0) == ZL_MAGIC, length = (uint32_t)zl_pass(&s, 4, 0);
    uint32_t i;
    if (!is_ours || length < ZL_HEAD + 4 || length > ZL_SLOT || zl_pass(&s, 4, 0) != ZL_VERSION) return 0;
    *sequence = (uint32_t)zl_pass(&s, 4, 0);
    for (i = 0; i < sizeof zl_facts; ++i)
        if (zl_pass(&s, 1, 0) != zl_facts[i]) return 0;
    for (i = ZL_HEAD; i < length - 4; ++i) zl_pass(&s, 1, 0);
    i = s.crc ^ 0xFFFFFFFFu;
    return zl_pass(&s, 4, 0) == i ? length : 0;
}
/* Return the offset of the newest whole slot, or ZL_BLOCK. Write its sequence. */
static inline uint32_t zl_newest(const unsigned char *block, uint32_t *sequence) {
    uint32_t second = 0, has_first = zl_check(block, sequence), has_second = zl_check(block + ZL_SLOT, &second);
    if (has_first && has_second) has_second = (second - *sequence) >> 31 ? 0 : has_second; /* may wrap */
    *sequence = has_second ? second : *sequence;
    return has_second ? (uint32_t)ZL_SLOT : has_first ? 0u : (uint32_t)ZL_BLOCK;
}
/* Write the learner to a stream, or read it: then every number found replaces the learner's own. */
static inline void zl_pass_all(zl_learner *z, zl_stream *s) {
    zl_bits bits;
    int k;
    uint32_t i;
    z->random = (zl_random)zl_pass(s, (int)sizeof z->random, z->random);
    z->episode = (uint32_t)zl_pass(s, 4, z->episode);
    z->n_rows = (uint16_t)zl_pass(s, 2, z->n_rows), z->n_balls = (uint16_t)zl_pass(s, 2, z->n_balls);
@if shared
@if int
    z->mean = (int32_t)zl_pass(s, 4, (uint32_t)z->mean);
@else
    bits.value = z->mean, bits.bits = (zl_raw)zl_pass(s, (int)sizeof bits.bits, bits.bits), z->mean = bits.value;
@end
@end
    if (z->n_rows > ZL_ROWS) z->n_rows = 0; /* not a learner of this header */
    for (i = 0; i < z->n_rows; ++i) {
        bits.value = z->rows[i].value, bits.bits = (zl_raw)zl_pass(s, (int)sizeof bits.bits, bits.bits);
        z->rows[i].value = bits.value;
        z->rows[i].visits = (zl_word)zl_pass(s, (int)sizeof(zl_word), z->rows[i].visits);
        z->rows[i].last = (zl_word)zl_pass(s, (int)sizeof(zl_word), z->rows[i].last);
        for (k = 0; k < ZL_KEPT; ++k) z->rows[i].cuts[k] = (uint8_t)zl_pass(s, 1, z->rows[i].cuts[k]);
        if (i & 1u)
            z->rows[i - 1].up = (uint8_t)zl_pass(s, 1, z->rows[i - 1].up), z->rows[i].up = (uint8_t)zl_pass(s, 1, z->rows[i].up);
    }
}
/* Begin with what the exported agent knows. */
static inline void zl_init(zl_learner *z) {
    unsigned i;
@if pending
    for (i = z->next_ticket = 0; i < ZL_PENDING; ++i) z->asked[i] = 0;
@end
    z->random = @first_random, z->episode = @first_episode, z->n_rows = @first_rows, z->n_balls = @first_balls@first_mean;
    for (i = 0; i < z->n_rows; ++i) z->rows[i] = zl_first_rows[i];
}
/* Write the learner into the older slot of a block of ZL_BLOCK bytes, so that a power cut at any
 * byte leaves the newer one. Return ZL_BLOCK. Pending decisions are not saved. */
static inline size_t zl_save(const zl_learner *z, unsigned char *block) {
    zl_stream s = {NULL, NULL, 0xFFFFFFFFu, 0};
    uint32_t sequence = 0, i;
    s.to = zl_newest(block, &sequence) == 0 ? block + ZL_SLOT : block;
    zl_pass(&s, 4, ZL_MAGIC), zl_pass(&s, 4, ZL_LENGTH(z->n_rows));
    zl_pass(&s, 4, ZL_VERSION), zl_pass(&s, 4, sequence + 1);
    for (i = 0; i < sizeof zl_facts; ++i) zl_pass(&s, 1, zl_facts[i]);
    zl_pass_all((zl_learner *)z, &s); /* while writing, it replaces every number by itself */
    zl_pass(&s, 4, s.crc ^ 0xFFFFFFFFu);
    return ZL_BLOCK;
}
/* Return whether the rows form trees whose every row leads to a root. */
static inline int zl_is_sound(const zl_learner *z) {
    unsigned row, up, above, n_up, n_balls = 0, n_inner = 0;
    int axis;
    if (z->n_rows < ZL_ROOTS || z->n_rows % 2@bad_mean) return 0;
    for (row = 0; row < z->n_rows; ++row) {
        const int is_unused = ZL_TREES % 2 && row == ZL_TREES; /* after an odd number of roots */
        for (up = row, n_up = 0; (above = zl_parent(z, up)) != ZL_ROWS; up = above)
            if (++n_up > z->n_rows || up < ZL_ROOTS || above >= z->n_rows || !zl_is_inner(z, above)
                || z->rows[above].last != (up & ~1u))
                return 0;
        if ((up >= ZL_TREES && !is_unused) || !(z->rows[row].value - z->rows[row].value == 0)) return 0;
        if (zl_is_inner(z, row)) {
            if (is_unused || z->rows[row].last % 2 || z->rows[row].last >= z->n_rows || zl_axis(z, row) >= ZL_N_AXES
                || zl_parent(z, z->rows[row].last) != row || (uint32_t)z->rows[row].visits - 1 >= ZL_ONE - 1)
                return 0;
            ++n_inner;
        } else if (!is_unused) {
            for (axis = 0; axis < ZL_N_AXES; ++axis)
                if (zl_cuts(z, row, axis) > ZL_DEEPEST) return 0;
            ++n_balls;
        }
    }
    return n_balls == z->n_balls && n_balls <= ZL_MAX_BALLS && n_balls == n_inner + ZL_TREES;
}
/* Read the newest whole slot of a block. If there is none, return ZL_BAD_BLOCK: the learner is then
 * unchanged or, if a whole slot has impossible contents, as after zl_init. */
static inline int zl_load(zl_learner *z, const unsigned char *block, size_t n) {
    zl_stream s = {NULL, NULL, 0, 0};
    uint32_t sequence, at = n < ZL_BLOCK ? (uint32_t)ZL_BLOCK : zl_newest(block, &sequence);
    if (at == ZL_BLOCK) return ZL_BAD_BLOCK;
    zl_init(z);
    s.from = block + at + ZL_HEAD;
    zl_pass_all(z, &s);
    return zl_is_sound(z) ? 0 : (zl_init(z), ZL_BAD_BLOCK);
}
#endif
