/* Play episodes with a learner: HEADER is its file, and its names begin with zl_.
 *
 *     learner PROBLEM EPISODES SEED     PROBLEM: 0 oil (laplace 1), 1 ambulance (Beta(5, 2), .25)
 *
 * It prints the mean return of the last tenth of the episodes, the CRC-32 of the saved learner, its
 * balls and bytes and, with COUNT, the most rows that an action and learning from a step have read.
 * SCALE is the number of units per 1 in the integer build. */
#ifdef COUNT /* the rows that are read */
static unsigned long ticks, most[2];
#define ZL_TICK (++ticks)
#endif
#include HEADER
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef SCALE
#define SCALE 1.0
#endif
#define TO(x) ((zl_number)(SCALE == 1.0 ? (x) : floor((x)*SCALE + 0.5)))
#define FROM(x) ((double)(x) / SCALE)

#ifdef COUNT
#define NOTE(i, call) (ticks = 0, call, most[i] = ticks > most[i] ? ticks : most[i])
#else
#define NOTE(i, call) (call)
#endif

static zl_learner learner;
static unsigned char block[ZL_BLOCK];
static uint64_t state;
/* Called by address, so that a profiler finds both functions by name. */
static int (*volatile act)(zl_learner *, int, const zl_number *, zl_number *) = zl_act;
static int (*volatile learn)(zl_learner *, int, const zl_number *, const zl_number *, zl_number,
                             const zl_number *, int) = zl_learn;

static double uniform(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static double fifth_of_six(void) { /* is Beta(5, 2) */
    double first = 0.0, second = 0.0;
    int i;
    for (i = 0; i < 6; ++i) {
        const double u = uniform();
        if (u > first) second = first, first = u;
        else if (u > second) second = u;
    }
    return second;
}

int main(int argc, char **argv) {
    const int problem = argc > 1 ? atoi(argv[1]) : 0;
    const long episodes = argc > 2 ? atol(argv[2]) : 2000;
    double last = 0.0;
    long k;
    uint32_t crc;
    state = 88172645463325252u ^ (uint64_t)(argc > 3 ? atol(argv[3]) : 1) << 32;
    zl_init(&learner);
    learner.random = (zl_random)(learner.random + (state >> 32)) | 1u;
    for (k = 0; k < episodes; ++k) {
        double x = 0.5;
        int h;
        for (h = 0; h < ZL_HORIZON; ++h) {
            zl_number at = TO(x), a, next;
            double played, reward, y;
            int code;
            NOTE(0, code = act(&learner, h, &at, &a));
            if (code) return 1;
            played = FROM(a);
            if (problem == 0) {
                y = played;
                reward = exp(-fabs(played - 0.75)) - fabs(x - played);
                reward = reward < 0.0 ? 0.0 : reward;
            } else {
                y = fifth_of_six();
                reward = 1.0 - (0.25 * fabs(x - played) + 0.75 * fabs(y - played));
            }
            next = TO(y);
            NOTE(1, code = learn(&learner, h, &at, &a, TO(reward), &next, 0));
            if (code) return 1;
            last += k >= episodes - episodes / 10 ? reward : 0.0;
            x = y;
        }
    }
    zl_save(&learner, block);
    crc = (uint32_t)block[ZL_LENGTH(learner.n_rows) - 4] | (uint32_t)block[ZL_LENGTH(learner.n_rows) - 3] << 8
          | (uint32_t)block[ZL_LENGTH(learner.n_rows) - 2] << 16
          | (uint32_t)block[ZL_LENGTH(learner.n_rows) - 1] << 24;
    printf("%.4f %08lx %d %lu", last / (double)(episodes / 10 ? episodes / 10 : 1), (unsigned long)crc,
           learner.n_balls, (unsigned long)sizeof learner);
#ifdef COUNT
    printf(" %lu %lu", most[0], most[1]);
#endif
    printf("\n");
    return 0;
}
