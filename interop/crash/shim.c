/* Records what a server does to its log directories, and fails what it is told to fail.
 *
 * Loaded by LD_PRELOAD. Under CRASH_ROOT each change that succeeds is one entry of CRASH_JOURNAL, with
 * its data. One lock covers a change and its entry, so that the order of the entries is the order of
 * the changes. A sync is only noted: the machine does not crash, its model in `disk.rs` does. Without
 * CRASH_JOURNAL nothing is recorded; faults work all the same, and syncs cost nothing.
 *
 * What the model does not know (shared mappings, links, truncation by name) ends the server at once,
 * and `main.rs` compares the model's tree with the real one, so that nothing goes by unseen.
 *
 * A server that is killed between a change and its entry would leave a disk that the journal does not
 * lead to. So whoever kills it lets it finish first (`frozen`), and one that exits makes no change
 * from then on. `syncfs`, which rustix calls without the C library, comes here by a system call filter.
 *
 * CRASH_CONTROL is mapped into memory: see `struct control`, which `control.rs` writes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

enum kind { CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, RMDIR, MKDIR, SYNC, MARK, OPEN, SYNC_ALL };

/* An entry: this head, then `first_bytes` of a path and `second_bytes` of another one or of data. */
struct head {
    uint32_t kind, first_bytes, second_bytes, zero;
    uint64_t inode, at;
};

/* Faults: of the changes whose kind is in `kinds` and whose path has both texts, `skip` go by and the
 * next `count` fail with `error`. `half` lets the first of them write half of its bytes. While it is
 * `frozen` no change begins; `changing` tells of one that has begun. */
struct control {
    uint32_t armed, error, kinds, skip, count, half, hits, sync_delay_us;
    char contains[100], and_contains[100];
    _Atomic uint32_t frozen, changing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_bytes;
static int journal = -1;
static struct control *control;

static void die(const char *what, const char *path) {
    dprintf(2, "shim: %s of %s is not recorded\n", what, path);
    abort();
}

/* Waits for its turn to change something, for ever if the server is to be killed. */
static void begin_change(void) {
    pthread_mutex_lock(&lock);
    if (!control) return;
    control->changing = 1;
    if (!control->frozen) return;
    control->changing = 0;
    for (;;) pause();
}

static int finish(int result) {
    int error = errno;
    if (control) control->changing = 0;
    pthread_mutex_unlock(&lock);
    errno = error;
    return result;
}

static void trap_syncfs(void);

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("CRASH_ROOT"), *path = getenv("CRASH_JOURNAL");
    if (!directory) return;
    snprintf(root, sizeof root, "%s/", directory);
    if (path) {
        journal = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
        if (journal < 0) die("opening", path);
    }
    path = getenv("CRASH_CONTROL");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (control == MAP_FAILED) die("mapping", path);
        close(fd);
    }
    root_bytes = strlen(root);
    trap_syncfs();
}

/* Threads that outlive the end of `main` change nothing any more. */
__attribute__((destructor)) static void end(void) { pthread_mutex_lock(&lock); }

/* The part of a path below the root, in `buffer`; NULL for all other paths. */
static const char *below_root(char *buffer) {
    return strncmp(buffer, root, root_bytes) == 0 ? buffer + root_bytes : NULL;
}

static const char *path_of(int fd, char *buffer) {
    char link[32];
    struct stat status;
    if (!root_bytes || fstat(fd, &status) || !(S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)))
        return NULL;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t bytes = readlink(link, buffer, PATH_MAX - 1);
    if (bytes < 0) return NULL;
    buffer[bytes] = 0;
    return below_root(buffer);
}

static const char *path_at(int directory, const char *path, char *buffer) {
    if (!root_bytes) return NULL;
    if (path[0] == '/') {
        snprintf(buffer, PATH_MAX, "%s", path);
    } else if (directory == AT_FDCWD) {
        return NULL; /* Every log directory is an absolute path. */
    } else {
        char parent[PATH_MAX];
        if (!path_of(directory, parent)) return NULL;
        if (snprintf(buffer, PATH_MAX, "%s/%s", parent, path) >= PATH_MAX) die("a name", path);
    }
    return below_root(buffer);
}

static uint64_t inode_of(int fd) {
    struct stat status;
    return fstat(fd, &status) ? 0 : status.st_ino;
}

static void note(enum kind kind, uint64_t inode, uint64_t at, const char *first, const void *second,
                 size_t second_bytes) {
    if (journal < 0) return;
    struct head head = {.kind = kind, .first_bytes = first ? strlen(first) : 0,
                        .second_bytes = second_bytes, .inode = inode, .at = at};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)first, head.first_bytes},
                            {(void *)second, second_bytes}};
    ssize_t all = sizeof head + head.first_bytes + second_bytes;
    if (syscall(SYS_writev, journal, parts, 3) != all) die("an entry", "the journal");
}

/* Whether this change is to fail; sets `errno`. The lock is held. */
static int fails(enum kind kind, const char *path, int *half) {
    if (!control || !control->armed || !(control->kinds & (1u << kind))) return 0;
    if (!strstr(path, control->contains) || !strstr(path, control->and_contains)) return 0;
    if (control->skip) {
        control->skip--;
        return 0;
    }
    if (!control->count) return 0;
    control->count--;
    if (half && control->half && control->hits++ == 0) {
        *half = 1;
        return 0;
    }
    control->hits++;
    errno = control->error;
    return 1;
}

static int open_at(int directory, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = path_at(directory, path, buffer);
    if (!name) return syscall(SYS_openat, directory, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE) die("a nameless file", path);
    begin_change();
    struct stat before;
    int existed = fstatat(directory, path, &before, 0) == 0;
    int creates = !existed && (flags & O_CREAT);
    if (fails(OPEN, name, NULL) || (creates && fails(CREATE, name, NULL))) return finish(-1);
    int fd = syscall(SYS_openat, directory, path, flags, mode);
    if (fd >= 0 && creates) note(CREATE, inode_of(fd), 0, name, NULL, 0);
    if (fd >= 0 && existed && (flags & O_TRUNC) && before.st_size)
        note(TRUNCATE, before.st_ino, 0, name, NULL, 0);
    return finish(fd);
}

#define MODE_OF(flags, mode)                                  \
    mode_t mode = 0;                                          \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                  \
        va_list more;                                         \
        va_start(more, flags);                                \
        mode = va_arg(more, mode_t);                          \
        va_end(more);                                         \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int directory, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(directory, path, flags, mode);
}
int openat64(int directory, const char *path, int flags, ...) {
    MODE_OF(flags, mode)
    return open_at(directory, path, flags, mode);
}

/* Writes at `at`, or at the cursor if that is -1. */
static ssize_t write_at(int fd, const struct iovec *parts, int count, off_t at) {
    char buffer[PATH_MAX];
    const char *name = path_of(fd, buffer);
    if (!name)
        return at < 0 ? syscall(SYS_writev, fd, parts, count)
                      : syscall(SYS_pwritev, fd, parts, count, at, 0);
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    char *data = malloc(bytes + 1), *end = data;
    for (int i = 0; i < count; i++) end = mempcpy(end, parts[i].iov_base, parts[i].iov_len);
    begin_change();
    int half = 0;
    ssize_t done = -1;
    if (!fails(WRITE, name, &half)) {
        if (half) bytes /= 2;
        done = at < 0 ? syscall(SYS_write, fd, data, bytes) : syscall(SYS_pwrite64, fd, data, bytes, at);
        if (done > 0)
            note(WRITE, inode_of(fd), at < 0 ? lseek(fd, 0, SEEK_CUR) - done : at, NULL, data, done);
    }
    finish(0);
    int error = errno;
    free(data);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    struct iovec part = {(void *)data, bytes};
    return write_at(fd, &part, 1, -1);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_at(fd, parts, count, -1); }
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    struct iovec part = {(void *)data, bytes};
    return write_at(fd, &part, 1, at);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off_t at) { return pwrite(fd, data, bytes, at); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return write_at(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) {
    return write_at(fd, parts, count, at);
}

int ftruncate(int fd, off_t length) {
    char buffer[PATH_MAX];
    const char *name = path_of(fd, buffer);
    if (!name) return syscall(SYS_ftruncate, fd, length);
    begin_change();
    int result = fails(TRUNCATE, name, NULL) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
    if (result == 0) note(TRUNCATE, inode_of(fd), length, name, NULL, 0);
    return finish(result);
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

static int sync_file(int fd, long number) {
    char buffer[PATH_MAX];
    const char *name = path_of(fd, buffer);
    if (!name) return syscall(number, fd);
    begin_change();
    int failed = fails(SYNC, name, NULL);
    if (!failed) note(SYNC, inode_of(fd), 0, name, NULL, 0);
    finish(0);
    /* As a disk takes its time, with others going on meanwhile. */
    int error = errno;
    if (control && control->sync_delay_us) usleep(control->sync_delay_us);
    errno = error;
    return failed ? -1 : 0;
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

#if defined(__x86_64__)
#define FIRST_ARGUMENT(machine) ((int)(machine)->gregs[REG_RDI])
#define RESULT(machine) ((machine)->gregs[REG_RAX])
#elif defined(__aarch64__)
#define FIRST_ARGUMENT(machine) ((int)(machine)->regs[0])
#define RESULT(machine) ((machine)->regs[0])
#endif

/* Everything below the root is one file system. */
static void on_syncfs(int number, siginfo_t *signal, void *context) {
    char buffer[PATH_MAX];
    mcontext_t *machine = &((ucontext_t *)context)->uc_mcontext;
    int before = errno;
    const char *name = path_of(FIRST_ARGUMENT(machine), buffer);
    begin_change();
    int failed = fails(SYNC_ALL, name ? name : "", NULL);
    int error = errno;
    if (!failed) note(SYNC_ALL, 0, 0, NULL, NULL, 0);
    finish(0);
    RESULT(machine) = failed ? -error : 0;
    errno = before;
}

static void trap_syncfs(void) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_syncfs, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    struct sigaction action = {.sa_sigaction = on_syncfs, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        die("a filter of system calls", "syncfs");
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags) {
    char buffers[2][PATH_MAX];
    const char *old = path_at(from_at, from, buffers[0]), *new = path_at(to_at, to, buffers[1]);
    if (!old && !new) return syscall(SYS_renameat2, from_at, from, to_at, to, flags);
    if (!old || !new || flags) die("a rename", from);
    begin_change();
    int result = fails(RENAME, old, NULL) ? -1 : (int)syscall(SYS_renameat2, from_at, from, to_at, to, 0);
    if (result == 0) note(RENAME, 0, 0, old, new, strlen(new));
    return finish(result);
}
int renameat(int from_at, const char *from, int to_at, const char *to) {
    return renameat2(from_at, from, to_at, to, 0);
}
int rename(const char *from, const char *to) { return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int directory, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *name = path_at(directory, path, buffer);
    if (!name) return syscall(SYS_unlinkat, directory, path, flags);
    enum kind kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    begin_change();
    int result = fails(kind, name, NULL) ? -1 : (int)syscall(SYS_unlinkat, directory, path, flags);
    if (result == 0) note(kind, 0, 0, name, NULL, 0);
    return finish(result);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int directory, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *name = path_at(directory, path, buffer);
    if (!name) return syscall(SYS_mkdirat, directory, path, mode);
    begin_change();
    int result = fails(MKDIR, name, NULL) ? -1 : (int)syscall(SYS_mkdirat, directory, path, mode);
    struct stat made;
    if (result == 0 && fstatat(directory, path, &made, 0) == 0) note(MKDIR, made.st_ino, 0, name, NULL, 0);
    return finish(result);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* What copies within the kernel is told that this does not work here; callers then read and write. */
ssize_t copy_file_range(int in, off_t *in_at, int out, off_t *out_at, size_t bytes, unsigned flags) {
    char buffer[PATH_MAX];
    if (!path_of(out, buffer)) return syscall(SYS_copy_file_range, in, in_at, out, out_at, bytes, flags);
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int out, int in, off_t *at, size_t bytes) {
    char buffer[PATH_MAX];
    if (!path_of(out, buffer)) return syscall(SYS_sendfile, out, in, at, bytes);
    errno = EINVAL;
    return -1;
}
ssize_t sendfile(int out, int in, off_t *at, size_t bytes) { return sendfile64(out, in, at, bytes); }

void *mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
    char buffer[PATH_MAX];
    int shared = fd >= 0 && (protection & PROT_WRITE) && (flags & 3) != MAP_PRIVATE;
    if (shared && path_of(fd, buffer)) die("a shared mapping", buffer);
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, fd, at);
}
void *mmap64(void *address, size_t bytes, int protection, int flags, int fd, off_t at) {
    return mmap(address, bytes, protection, flags, fd, at);
}
int truncate(const char *path, off_t length) {
    char buffer[PATH_MAX];
    if (path_at(AT_FDCWD, path, buffer)) die("truncation by name", path);
    return syscall(SYS_truncate, path, length);
}
int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    char buffer[PATH_MAX];
    if (path_at(to_at, to, buffer)) die("a link", to);
    return syscall(SYS_linkat, from_at, from, to_at, to, flags);
}
int fallocate(int fd, int mode, off_t at, off_t length) {
    char buffer[PATH_MAX];
    if (path_of(fd, buffer)) die("allocation", buffer);
    return syscall(SYS_fallocate, fd, mode, at, length);
}
