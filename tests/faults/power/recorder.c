/* What a process does to files below $RECORD_UNDER, in the order in which it does it, as lines of $RECORD_TO.
 *
 * Preloaded into all processes of a job. A name or a write is told before it is made and a sync after it was, so what
 * the record has first has happened first. One write to a file opened for appending is one piece, whoever writes.
 *
 *     W path        is open for writing
 *     N path        gets this name: made, linked or renamed
 *     R from to     takes its bytes along from there
 *     S path        is on the disk
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int record = -1;
static const char *under;

__attribute__((constructor)) static void begin(void) {
    const char *to = getenv("RECORD_TO");
    under = getenv("RECORD_UNDER");
    if (to && under) record = open(to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static void say(const char *kind, const char *path, const char *other) {
    char line[2 * PATH_MAX + 8];
    if (record < 0 || strncmp(path, under, strlen(under)) != 0) return;
    int length = other ? snprintf(line, sizeof line, "%s\t%s\t%s\n", kind, path, other)
                       : snprintf(line, sizeof line, "%s\t%s\n", kind, path);
    if (write(record, line, length) != length) abort();
}

/* Relative paths and those by a folder's descriptor become whole ones. */
static const char *whole(int folder, const char *path, char *into) {
    char base[PATH_MAX];
    if (path[0] == '/') return path;
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return path;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0) return path;
        base[length] = 0;
    }
    snprintf(into, PATH_MAX, "%.2000s/%.2000s", base, path);
    return into;
}

static void opened(int folder, const char *path, int flags) {
    char into[PATH_MAX];
    if ((flags & O_ACCMODE) == O_RDONLY) return;
    path = whole(folder, path, into);
    if (access(path, F_OK) != 0 && (flags & O_CREAT)) say("N", path, NULL);
    say("W", path, NULL);
}

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

#define OPENS(name)                                                                                                    \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int mode = va_arg(more, int);                                                                                  \
        va_end(more);                                                                                                  \
        opened(AT_FDCWD, path, flags);                                                                                 \
        return REAL(name)(path, flags, mode);                                                                          \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                                                                                 \
    int name(int folder, const char *path, int flags, ...) {                                                           \
        va_list more;                                                                                                  \
        va_start(more, flags);                                                                                         \
        int mode = va_arg(more, int);                                                                                  \
        va_end(more);                                                                                                  \
        opened(folder, path, flags);                                                                                   \
        return REAL(name)(folder, path, flags, mode);                                                                  \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

static void named(int from_folder, const char *from, int to_folder, const char *to) {
    char one[PATH_MAX], other[PATH_MAX];
    from = whole(from_folder, from, one);
    to = whole(to_folder, to, other);
    say("R", from, to);
    say("N", to, NULL);
}

int rename(const char *from, const char *to) {
    named(AT_FDCWD, from, AT_FDCWD, to);
    return REAL(rename)(from, to);
}

int renameat(int a, const char *from, int b, const char *to) {
    named(a, from, b, to);
    return REAL(renameat)(a, from, b, to);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    named(a, from, b, to);
    return REAL(renameat2)(a, from, b, to, flags);
}

int link(const char *from, const char *to) {
    named(AT_FDCWD, from, AT_FDCWD, to);
    return REAL(link)(from, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags) {
    named(a, from, b, to);
    return REAL(linkat)(a, from, b, to, flags);
}

int mkdir(const char *path, mode_t mode) {
    char into[PATH_MAX];
    const char *name = whole(AT_FDCWD, path, into);
    if (access(name, F_OK) != 0) say("N", name, NULL);
    return REAL(mkdir)(path, mode);
}

static int synced(int descriptor, int result) {
    char link[64], path[PATH_MAX];
    if (result == 0) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, path, sizeof path - 1);
        if (length > 0) {
            path[length] = 0;
            say("S", path, NULL);
        }
    }
    return result;
}

int fsync(int descriptor) { return synced(descriptor, REAL(fsync)(descriptor)); }

int fdatasync(int descriptor) { return synced(descriptor, REAL(fdatasync)(descriptor)); }
