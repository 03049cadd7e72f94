/* A learner of HEADER for the tests: functions to call from Python, and power cuts at every byte. */
#include <stdlib.h>
#include <string.h>

static unsigned long ticks, most_act, most_learn, room = (unsigned long)-1;
#define ZL_TICK (++ticks)
#define ZL_PUT(place, byte) ((void)(room && (--room, *(place) = (byte), 1)))
#define ZL_GET(place) (*(place))
#include HEADER

zl_learner *make(void);
int act(zl_learner *z, int step, const zl_number *state, zl_number *action);
int best(const zl_learner *z, int step, const zl_number *state, zl_number *action);
int learn(zl_learner *z, int step, const zl_number *state, const zl_number *action, zl_number reward,
          const zl_number *next, int terminated);
int ask(zl_learner *z, int step, const zl_number *state, zl_number *action);
int tell(zl_learner *z, int ticket, zl_number reward, const zl_number *next, int terminated);
int load(zl_learner *z, const unsigned char *block, unsigned long n);
void save(const zl_learner *z, unsigned char *block, unsigned long n);
void drop(zl_learner *z);
unsigned long number(int i);
int cut(const zl_learner *older, const zl_learner *newer);

zl_learner *make(void) {
    zl_learner *z = malloc(sizeof *z);
    memset(z, 0xA5, sizeof *z);
    zl_init(z);
    return z;
}
void drop(zl_learner *z) { free(z); }
int act(zl_learner *z, int step, const zl_number *state, zl_number *action) {
    int code;
    ticks = 0;
    code = zl_act(z, step, state, action);
    most_act = ticks > most_act ? ticks : most_act;
    return code;
}
int best(const zl_learner *z, int step, const zl_number *state, zl_number *action) {
    return zl_best(z, step, state, action);
}
int learn(zl_learner *z, int step, const zl_number *state, const zl_number *action, zl_number reward,
          const zl_number *next, int terminated) {
    int code;
    ticks = 0;
    code = zl_learn(z, step, state, action, reward, next, terminated);
    most_learn = ticks > most_learn ? ticks : most_learn;
    return code;
}
#ifdef RING
int ask(zl_learner *z, int step, const zl_number *state, zl_number *action) {
    return zl_ask(z, step, state, action);
}
int tell(zl_learner *z, int ticket, zl_number reward, const zl_number *next, int terminated) {
    return zl_tell(z, ticket, reward, next, terminated);
}
#endif
int load(zl_learner *z, const unsigned char *block, unsigned long n) { return zl_load(z, block, n); }
void save(const zl_learner *z, unsigned char *block, unsigned long n) { /* n bytes, then no power */
    room = n;
    zl_save(z, block);
    room = (unsigned long)-1;
}
unsigned long number(int i) {
    const unsigned long numbers[] = {sizeof(zl_learner), ZL_BYTES, ZL_BLOCK, most_act, ZL_MOST_ACT,
                                     most_learn, ZL_MOST_LEARN};
    return numbers[i];
}

static int is_same(const zl_learner *z, const zl_learner *other) {
    unsigned char mine[ZL_BLOCK], others[ZL_BLOCK];
    memset(mine, 0, ZL_BLOCK);
    memset(others, 0, ZL_BLOCK);
    zl_save(z, mine);
    zl_save(other, others);
    return memcmp(mine, others, ZL_BLOCK) == 0;
}

/* Save `older` in each slot, cut the power at each byte of saving `newer`, and load. Return the
 * number of cuts after which the older learner came back, or -1 if neither did. */
int cut(const zl_learner *older, const zl_learner *newer) {
    unsigned char block[ZL_BLOCK];
    zl_learner *found = make();
    int n_older = 0, times, code;
    unsigned long at, length = ZL_LENGTH(newer->n_rows);
    for (times = 1; times <= 4; ++times) {
        for (at = 0; at <= length; ++at) {
            int i;
            memset(block, 0xFF, ZL_BLOCK);
            for (i = 0; i < times; ++i) save(older, block, (unsigned long)-1);
            save(newer, block, at);
            code = load(found, block, ZL_BLOCK);
            if (code || !(is_same(found, older) || is_same(found, newer))) return -1;
            if (at == length && !is_same(found, newer)) return -1;
            n_older += is_same(found, older);
        }
    }
    drop(found);
    return n_older;
}

#ifdef FUZZ
/* Change random bytes of a saved learner, with the right CRC. It is refused, or harmless. */
int main(void) {
    static unsigned char block[ZL_BLOCK];
    zl_learner *z = make();
    zl_number x[ZL_N_STATE], a[ZL_N_ACTION];
    unsigned long n_taken = 0, seed = 1, i, k, length;
    int h, j;
    for (k = 0; k < 4000; ++k) {
        zl_init(z);
        for (i = 0; i < 60; ++i) {
            for (h = 0; h < ZL_HORIZON; ++h) {
                for (j = 0; j < ZL_N_STATE; ++j) x[j] = 0;
                if (zl_act(z, h, x, a)) return 2;
                if (zl_learn(z, h, x, a, 0, x, 0)) return 2;
            }
        }
        memset(block, 0, sizeof block);
        zl_save(z, block);
        length = ZL_LENGTH(z->n_rows);
        for (i = 0; i < 1 + k % 3; ++i) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            block[ZL_HEAD + (seed >> 33) % (length - 4 - ZL_HEAD)] = (unsigned char)(seed >> 24);
        }
        {
            zl_stream s = {NULL, NULL, 0xFFFFFFFFu, 0};
            s.from = block;
            for (i = 0; i < length - 4; ++i) zl_pass(&s, 1, 0);
            for (i = 0; i < 4; ++i) block[length - 4 + i] = (unsigned char)((s.crc ^ 0xFFFFFFFFu) >> 8 * i);
        }
        if (zl_load(z, block, sizeof block) == 0) {
            ++n_taken;
            for (i = 0; i < 40; ++i) {
                for (h = 0; h < ZL_HORIZON; ++h) {
                    if (zl_act(z, h, x, a)) return 3;
                    if (zl_learn(z, h, x, a, 0, x, 0)) return 3;
                }
            }
        }
    }
    drop(z);
    return n_taken > 100 && n_taken < 3900 ? 0 : 4;
}
#endif
