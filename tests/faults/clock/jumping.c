/* The wall clock of a process, set forward or back: by so many nanoseconds as $CLOCK_OFFSET's first eight bytes say, a
 * file that is mapped in memory, so that a test sets the clocks of all processes of a job in one moment.
 *
 * Preloaded into all of them. Clocks that nobody can set (CLOCK_MONOTONIC) are left alone, and so are the kernel's
 * times of files. Who waits until a moment of the wall clock waits by the kernel's, which is not set: so the moment is
 * told to it without the offset. A wait that is under way when the clock is set ends as if it had not been, which the
 * kernel would do otherwise; a program that looks at the clock again and again, as Spark's, is not spared.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
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

/* By a clock that counts from the machine's start no moment is as late as this one. */
static struct timespec without_offset(const struct timespec *until) {
    return until->tv_sec > 1000000000 ? moved(*until, -now_offset()) : *until;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    REAL(pthread_cond_timedwait, "GLIBC_2.3.2");
    struct timespec at = without_offset(until);
    return real(cond, mutex, &at);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict until) {
    REAL(pthread_cond_clockwait, "GLIBC_2.30");
    struct timespec at = without_offset(until);
    return real(cond, mutex, clock, &at);
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    REAL(pthread_mutex_timedlock, "GLIBC_2.2.5");
    struct timespec at = without_offset(until);
    return real(mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    REAL(sem_timedwait, "GLIBC_2.2.5");
    struct timespec at = without_offset(until);
    return real(semaphore, &at);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    REAL(sem_clockwait, "GLIBC_2.30");
    struct timespec at = without_offset(until);
    return real(semaphore, clock, &at);
}
