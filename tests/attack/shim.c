/* Between a process and the system: the n-th call of a kind on files below one folder fails, or every change of a file
   below it is written down; with a number below 0 the process is killed before that call. Loaded by LD_PRELOAD; quiet until it is armed, which a child does after it was forked
   (tests/attack/server.py). See tests/attack/shim.py for who builds it and who reads the record. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NONE, WRITE, FSYNC, RENAME, OPEN, READ, KINDS };

static char folder[PATH_MAX];
static size_t folder_length;
static int armed, sticky, error_number, record_to = -1;
static long at, calls[KINDS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void attack_arm(const char *below, int kind, long n, int number, int for_good, int record) {
    snprintf(folder, sizeof folder, "%s", below);
    folder_length = strlen(folder);
    armed = kind, at = n, error_number = number, sticky = for_good;
    record_to = record;
}

long attack_calls(int kind) { return calls[kind]; }

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static int watching(void) { return folder_length && (armed || record_to >= 0); }

static int below(const char *path) {
    return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}

/* The absolute path of a file descriptor, or of a path relative to a folder; 0 if it is not below. */
static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return below(path);
}

static int path_at(int dir, const char *name, char *path) {
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
        return below(path);
    }
    char from[PATH_MAX];
    if (dir == AT_FDCWD) {
        if (syscall(SYS_getcwd, from, sizeof from) <= 0) return 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, from, sizeof from - 1);
        if (length <= 0) return 0;
        from[length] = 0;
    }
    if (snprintf(path, PATH_MAX, "%s/%s", from, name) >= PATH_MAX) return 0;
    return below(path);
}

static int fails(int kind) {
    long call = __atomic_add_fetch(&calls[kind], 1, __ATOMIC_SEQ_CST);
    if (armed != kind) return 0;
    if (call != at && !(sticky && call > at)) return 0;
    if (error_number < 0) syscall(SYS_kill, getpid(), SIGKILL);
    errno = error_number;
    return 1;
}

static void put(const void *data, size_t size) {
    for (const char *from = data; size;) {
        ssize_t done = syscall(SYS_write, record_to, from, size);
        if (done <= 0) return;
        from += done, size -= done;
    }
}

/* One entry: the kind of change, a path, where in the file, and bytes (of a rename: the new path). */
static void note(char what, const char *path, uint64_t offset, const void *data, uint64_t size) {
    if (record_to < 0) return;
    int before = errno;
    uint32_t length = strlen(path), code = what;
    pthread_mutex_lock(&lock);
    put(&code, 4), put(&length, 4), put(&offset, 8), put(&size, 8), put(path, length), put(data, size);
    pthread_mutex_unlock(&lock);
    errno = before;
}

static off_t place(int fd) {
    struct stat facts;
    if (fcntl(fd, F_GETFL) & O_APPEND) return fstat(fd, &facts) ? 0 : facts.st_size;
    off_t found = lseek(fd, 0, SEEK_CUR);
    return found < 0 ? 0 : found;
}

ssize_t write(int fd, const void *data, size_t size) {
    REAL(write);
    char path[PATH_MAX];
    if (!watching() || !path_of(fd, path)) return real(fd, data, size);
    if (fails(WRITE)) return -1;
    off_t offset = place(fd);
    ssize_t done = real(fd, data, size);
    if (done > 0) note('W', path, offset, data, done);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    char path[PATH_MAX];
    if (!watching() || !path_of(fd, path)) return real(fd, parts, count);
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (done < 0) return total ? total : -1;
        total += done;
    }
    return total;
}

#define PWRITE(name)                                                              \
    ssize_t name(int fd, const void *data, size_t size, off_t offset) {           \
        REAL(name);                                                               \
        char path[PATH_MAX];                                                      \
        if (!watching() || !path_of(fd, path)) return real(fd, data, size, offset); \
        if (fails(WRITE)) return -1;                                              \
        ssize_t done = real(fd, data, size, offset);                              \
        if (done > 0) note('W', path, offset, data, done);                        \
        return done;                                                              \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define TRUNCATE(name)                                                  \
    int name(int fd, off_t size) {                                      \
        REAL(name);                                                     \
        char path[PATH_MAX];                                            \
        if (!watching() || !path_of(fd, path)) return real(fd, size);   \
        if (fails(WRITE)) return -1;                                    \
        int done = real(fd, size);                                      \
        if (!done) note('T', path, size, "", 0);                        \
        return done;                                                    \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define FALLOCATE(name)                                                       \
    int name(int fd, off_t offset, off_t size) {                              \
        REAL(name);                                                           \
        char path[PATH_MAX];                                                  \
        if (!watching() || !path_of(fd, path)) return real(fd, offset, size); \
        if (fails(WRITE)) return errno; /* it returns the number */           \
        return real(fd, offset, size);                                        \
    }
FALLOCATE(posix_fallocate)
FALLOCATE(posix_fallocate64)

#define SYNC(name)                                                  \
    int name(int fd) {                                              \
        REAL(name);                                                 \
        char path[PATH_MAX];                                        \
        if (!watching() || !path_of(fd, path)) return real(fd);     \
        if (fails(FSYNC)) return -1;                                \
        int done = real(fd);                                        \
        if (!done) note('F', path, 0, "", 0);                       \
        return done;                                                \
    }
SYNC(fsync)
SYNC(fdatasync)

ssize_t read(int fd, void *data, size_t size) {
    REAL(read);
    char path[PATH_MAX];
    if (watching() && path_of(fd, path) && fails(READ)) return -1;
    return real(fd, data, size);
}

#define PREAD(name)                                                                       \
    ssize_t name(int fd, void *data, size_t size, off_t offset) {                         \
        REAL(name);                                                                       \
        char path[PATH_MAX];                                                              \
        if (watching() && path_of(fd, path) && fails(READ)) return -1;   \
        return real(fd, data, size, offset);                                              \
    }
PREAD(pread)
PREAD(pread64)

static void opened(const char *path, int flags, int existed) {
    if ((flags & O_CREAT) && !existed) note('C', path, 0, "", 0);
    else if (flags & O_TRUNC) note('T', path, 0, "", 0);
}

#define MODE                                   \
    va_list rest;                              \
    va_start(rest, flags);                     \
    mode_t mode = va_arg(rest, mode_t);        \
    va_end(rest)

#define OPENS(name, parameters, dir, call)                                       \
    int name parameters {                                                        \
        REAL(name);                                                              \
        MODE;                                                                    \
        char path[PATH_MAX];                                                     \
        if (!watching() || !path_at(dir, file, path)) return call;               \
        if (fails(OPEN)) return -1;                                              \
        int existed = !faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW);     \
        int done = call;                                                         \
        if (done >= 0) opened(path, flags, existed);                             \
        return done;                                                             \
    }
OPENS(open, (const char *file, int flags, ...), AT_FDCWD, real(file, flags, mode))
OPENS(open64, (const char *file, int flags, ...), AT_FDCWD, real(file, flags, mode))
OPENS(openat, (int dir, const char *file, int flags, ...), dir, real(dir, file, flags, mode))
OPENS(openat64, (int dir, const char *file, int flags, ...), dir, real(dir, file, flags, mode))

static int renamed(int done, const char *from, const char *to) {
    if (!done) note('R', from, 0, to, strlen(to));
    return done;
}

int rename(const char *from, const char *to) {
    REAL(rename);
    char old[PATH_MAX], new[PATH_MAX];
    if (!watching() || !path_at(AT_FDCWD, from, old) || !path_at(AT_FDCWD, to, new)) return real(from, to);
    return fails(RENAME) ? -1 : renamed(real(from, to), old, new);
}

int renameat(int here, const char *from, int there, const char *to) {
    REAL(renameat);
    char old[PATH_MAX], new[PATH_MAX];
    if (!watching() || !path_at(here, from, old) || !path_at(there, to, new)) return real(here, from, there, to);
    return fails(RENAME) ? -1 : renamed(real(here, from, there, to), old, new);
}

static int gone(int done, const char *path) {
    if (!done) note('U', path, 0, "", 0);
    return done;
}

int unlink(const char *file) {
    REAL(unlink);
    char path[PATH_MAX];
    return watching() && path_at(AT_FDCWD, file, path) ? gone(real(file), path) : real(file);
}

int rmdir(const char *file) {
    REAL(rmdir);
    char path[PATH_MAX];
    return watching() && path_at(AT_FDCWD, file, path) ? gone(real(file), path) : real(file);
}

int unlinkat(int dir, const char *file, int flags) {
    REAL(unlinkat);
    char path[PATH_MAX];
    return watching() && path_at(dir, file, path) ? gone(real(dir, file, flags), path) : real(dir, file, flags);
}

static int made(int done, const char *path) {
    if (!done) note('M', path, 0, "", 0);
    return done;
}

int mkdir(const char *file, mode_t mode) {
    REAL(mkdir);
    char path[PATH_MAX];
    return watching() && path_at(AT_FDCWD, file, path) ? made(real(file, mode), path) : real(file, mode);
}

int mkdirat(int dir, const char *file, mode_t mode) {
    REAL(mkdirat);
    char path[PATH_MAX];
    return watching() && path_at(dir, file, path) ? made(real(dir, file, mode), path) : real(dir, file, mode);
}
