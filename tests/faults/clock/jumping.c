/* The wall clock of a process, set forward or back: by so many nanoseconds as $CLOCK_OFFSET's first eight bytes say, a
 * file that is mapped in memory, so that a test sets the clocks of all processes of a job in one moment.
 *
 * Preloaded into all of them. Clocks that nobody can set (CLOCK_MONOTONIC) are left alone, and so are the kernel's
 * times of files. Who waits until a moment of the wall clock is woken when this one is there, as the kernel would do: so
 * such a wait is made of short ones, with a look at the clock after each. For conditions that is a waking without a
 * reason, which all who use them have to expect.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *offset;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("CLOCK_OFFSET");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *place = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) offset = place;
    close(file);
}

/* With 2.3.2 a condition's functions got another form on x86-64, and plain dlsym finds the old one. */
#define REAL(name, version)                                                                                            \
    static __typeof__(&name) real;                                                                                     \
    if (!real) {                                                                                                       \
        void *found = dlvsym(RTLD_NEXT, #name, version);                                                               \
        real = (__typeof__(&name)) (found ? found : dlsym(RTLD_NEXT, #name));                                          \
    }

static int64_t now_offset(void) { return offset ? *offset : 0; }

static struct timespec moved(struct timespec at, int64_t by) {
    int64_t sum = at.tv_sec * SECOND + at.tv_nsec + by;
    return (struct timespec){.tv_sec = sum / SECOND, .tv_nsec = sum % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    REAL(clock_gettime, "GLIBC_2.17");
    int result = real(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *at = moved(*at, now_offset());
    return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void) zone;
    struct timespec exact;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    *at = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return result;
}

time_t time(time_t *at) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (at) *at = exact.tv_sec;
    return exact.tv_sec;
}

#define LOOK 20000000LL /* nanoseconds from look to look */

static int64_t nanoseconds(const struct timespec *at) { return at->tv_sec * SECOND + at->tv_nsec; }

/* Until when to wait by the kernel's clock, and whether that is all of the wait. By a clock that counts from the
 * machine's start, which is left alone, no moment is as late as this one. */
static struct timespec piece(const struct timespec *until, int *is_all) {
    struct timespec at;
    *is_all = 1;
    if (until->tv_sec < 1000000000) return *until;
    clock_gettime(CLOCK_REALTIME, &at);
    int64_t left = nanoseconds(until) - nanoseconds(&at);
    if (left > LOOK) *is_all = 0, left = LOOK;
    return moved(at, left - now_offset());
}

#define WAITS(name, version, timed_out, parameters, arguments)                                                         \
    int name parameters {                                                                                              \
        REAL(name, version);                                                                                           \
        int is_all;                                                                                                    \
        struct timespec at = piece(until, &is_all);                                                                    \
        int result = real arguments;                                                                                   \
        return result == timed_out && !is_all ? 0 : result;                                                            \
    }
#define C pthread_cond_t *restrict cond
#define M pthread_mutex_t *restrict mutex
#define UNTIL const struct timespec *restrict until
WAITS(pthread_cond_timedwait, "GLIBC_2.3.2", ETIMEDOUT, (C, M, UNTIL), (cond, mutex, &at))
WAITS(pthread_cond_clockwait, "GLIBC_2.30", ETIMEDOUT, (C, M, clockid_t clock, UNTIL), (cond, mutex, clock, &at))
WAITS(cnd_timedwait, "GLIBC_2.28", thrd_timedout, (cnd_t * cond, mtx_t *mutex, UNTIL), (cond, mutex, &at))

/* A semaphore is not to be had without a reason. */
#define TAKES(name, version, parameters, arguments)                                                                    \
    int name parameters {                                                                                              \
        REAL(name, version);                                                                                           \
        for (;;) {                                                                                                     \
            int is_all;                                                                                                \
            struct timespec at = piece(until, &is_all);                                                                \
            if (real arguments == 0) return 0;                                                                         \
            if (errno != ETIMEDOUT || is_all) return -1;                                                               \
        }                                                                                                              \
    }
TAKES(sem_timedwait, "GLIBC_2.2.5", (sem_t *restrict semaphore, UNTIL), (semaphore, &at))
TAKES(sem_clockwait, "GLIBC_2.30", (sem_t *restrict semaphore, clockid_t clock, UNTIL), (semaphore, clock, &at))
