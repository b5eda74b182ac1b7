/* What batching system calls over connections would bring to small requests.
 *
 *   cc -O2 -msse4.2 -o /tmp/spike benches/spikes/io_uring.c && /tmp/spike [SECONDS [ROUNDS]]
 *
 * A server on the first core answers 64 connections with one request in flight each, from a client
 * on the last core: a request has 288 bytes, which are checked (CRC-32C) and appended to one of 16
 * files, an answer has 64. Each way to serve runs in turn, in a process of its own, round by round;
 * what is printed is the server's CPU time (user and system) per request.
 *
 *   epoll          epoll_wait, then read, pwrite and write for each connection that is ready
 *   epoll+pwritev  the same, with one pwritev for all that is ready for a file
 *   uring          one io_uring_enter for the receives and sends of all; pwrite for each
 *   uring+pwritev  the same, with one pwritev for all that is ready for a file
 *   uring+write    receives, writes and sends through the ring, each write linked to its send
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nmmintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 64, FILES = 16, REQUEST = 288, ANSWER = 64, ENTRIES = 512, WAYS = 5 };
enum { EPOLL, EPOLL_V, URING, URING_V, URING_WRITE };
static const char *NAMES[WAYS] = {"epoll", "epoll+pwritev", "uring", "uring+pwritev", "uring+write"};

#define CHECK(x) ({ long r_ = (long)(x); if (r_ < 0) { perror(#x); exit(1); } r_; })

static int sockets[CONNECTIONS], files[FILES];
static off_t ends[FILES];
static char in[CONNECTIONS][REQUEST], answer[ANSWER];
static size_t have[CONNECTIONS];
static uint64_t served;
static volatile uint32_t sum;

static void stay_on(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one));
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static uint32_t checksum(const char *bytes) {
    uint64_t crc = 0xffffffff, word;
    for (int at = 0; at < REQUEST; at += 8) {
        memcpy(&word, bytes + at, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    return (uint32_t)crc;
}

static void check(int c) {
    sum += checksum(in[c]);
    have[c] = 0;
    served++;
}

static void append(int c) {
    int f = c % FILES;
    CHECK(pwrite(files[f], in[c], REQUEST, ends[f]) == REQUEST ? 0 : -1);
    ends[f] += REQUEST;
}

/* Appends the requests of `ready` connections with one call for each file. */
static void append_all(const int *ready, int count) {
    struct iovec parts[FILES][CONNECTIONS];
    int lengths[FILES] = {0};
    for (int i = 0; i < count; i++) {
        int f = ready[i] % FILES;
        parts[f][lengths[f]++] = (struct iovec){in[ready[i]], REQUEST};
    }
    for (int f = 0; f < FILES; f++)
        if (lengths[f]) ends[f] += CHECK(pwritev(files[f], parts[f], lengths[f], ends[f]));
}

static void serve_by_epoll(int way) {
    int epoll = CHECK(epoll_create1(0));
    for (int c = 0; c < CONNECTIONS; c++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = c};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[c], &event));
    }
    for (;;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(epoll, events, CONNECTIONS, -1), whole = 0, ready[CONNECTIONS];
        if (count < 0 && errno == EINTR) continue;
        for (int i = 0; i < count; i++) {
            int c = events[i].data.u32;
            ssize_t got = read(sockets[c], in[c] + have[c], REQUEST - have[c]);
            if (got == 0) exit(0);
            if (got < 0) continue;
            if ((have[c] += got) < REQUEST) continue;
            check(c);
            if (way == EPOLL) {
                append(c);
                CHECK(write(sockets[c], answer, ANSWER));
            } else
                ready[whole++] = c;
        }
        if (way != EPOLL) {
            append_all(ready, whole);
            for (int i = 0; i < whole; i++) CHECK(write(sockets[ready[i]], answer, ANSWER));
        }
    }
}

static struct io_uring_sqe *sqes;
static struct io_uring_cqe *cqes;
static _Atomic unsigned *sq_tail, *cq_head, *cq_tail;
static unsigned *sq_array, sq_mask, cq_mask, queued;
static int ring;

static void open_ring(void) {
    struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    ring = CHECK(syscall(SYS_io_uring_setup, ENTRIES, &p));
    size_t sq_bytes = p.sq_off.array + p.sq_entries * 4;
    size_t cq_bytes = p.cq_off.cqes + p.cq_entries * sizeof *cqes;
    size_t bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_POPULATE;
    char *base = mmap(0, bytes, prot, flags, ring, IORING_OFF_SQ_RING);
    sqes = mmap(0, p.sq_entries * sizeof *sqes, prot, flags, ring, IORING_OFF_SQES);
    if (base == MAP_FAILED || (void *)sqes == MAP_FAILED) exit(1);
    sq_tail = (void *)(base + p.sq_off.tail);
    sq_array = (void *)(base + p.sq_off.array);
    sq_mask = *(unsigned *)(base + p.sq_off.ring_mask);
    cq_head = (void *)(base + p.cq_off.head);
    cq_tail = (void *)(base + p.cq_off.tail);
    cq_mask = *(unsigned *)(base + p.cq_off.ring_mask);
    cqes = (void *)(base + p.cq_off.cqes);
    /* Files of this process by their index, without looking each up and counting its users. */
    int fds[CONNECTIONS + FILES];
    memcpy(fds, sockets, sizeof sockets);
    memcpy(fds + CONNECTIONS, files, sizeof files);
    CHECK(syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, fds, CONNECTIONS + FILES));
}

static void queue(int op, int fd, const void *bytes, unsigned length, off_t at, int flags, int c) {
    unsigned tail = atomic_load_explicit(sq_tail, memory_order_relaxed), slot = tail & sq_mask;
    sqes[slot] = (struct io_uring_sqe){
        .opcode = op, .fd = fd, .addr = (uintptr_t)bytes, .len = length, .off = at,
        .flags = IOSQE_FIXED_FILE | flags, .user_data = (uint64_t)op << 32 | c};
    sq_array[slot] = slot;
    atomic_store_explicit(sq_tail, tail + 1, memory_order_release);
    queued++;
}

static void serve_by_ring(int way) {
    open_ring();
    for (int c = 0; c < CONNECTIONS; c++) queue(IORING_OP_RECV, c, in[c], REQUEST, 0, 0, c);
    for (;;) {
        long done = syscall(SYS_io_uring_enter, ring, queued, 1, IORING_ENTER_GETEVENTS, 0, 0);
        if (done < 0 && errno == EINTR) continue;
        queued -= CHECK(done);
        unsigned head = atomic_load_explicit(cq_head, memory_order_relaxed);
        unsigned tail = atomic_load_explicit(cq_tail, memory_order_acquire);
        int whole = 0, ready[CONNECTIONS];
        for (; head != tail; head++) {
            struct io_uring_cqe *cqe = &cqes[head & cq_mask];
            int c = (uint32_t)cqe->user_data, op = cqe->user_data >> 32;
            if (op == IORING_OP_SEND && way == URING_WRITE)
                queue(IORING_OP_RECV, c, in[c], REQUEST, 0, 0, c);
            if (op != IORING_OP_RECV) {
                if (cqe->res < 0) exit(2);
                continue;
            }
            if (cqe->res <= 0) exit(0);
            if ((have[c] += cqe->res) < REQUEST) {
                queue(IORING_OP_RECV, c, in[c] + have[c], REQUEST - have[c], 0, 0, c);
                continue;
            }
            check(c);
            ready[whole++] = c;
        }
        atomic_store_explicit(cq_head, head, memory_order_release);
        if (way == URING_V) append_all(ready, whole);
        for (int i = 0; i < whole; i++) {
            int c = ready[i], f = c % FILES;
            if (way == URING_WRITE) {
                queue(IORING_OP_WRITE, CONNECTIONS + f, in[c], REQUEST, ends[f], IOSQE_IO_LINK, c);
                ends[f] += REQUEST;
                queue(IORING_OP_SEND, c, answer, ANSWER, 0, 0, c);
                continue;
            }
            if (way == URING) append(c);
            queue(IORING_OP_SEND, c, answer, ANSWER, 0, 0, c);
            queue(IORING_OP_RECV, c, in[c], REQUEST, 0, 0, c);
        }
    }
}

static void client(int port, double seconds) {
    int epoll = CHECK(epoll_create1(0)), one = 1, fds[CONNECTIONS];
    static char request[REQUEST], bytes[ANSWER];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int c = 0; c < CONNECTIONS; c++) {
        fds[c] = CHECK(socket(AF_INET, SOCK_STREAM, 0));
        setsockopt(fds[c], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        CHECK(connect(fds[c], (void *)&to, sizeof to));
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[c]};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[c], &event));
    }
    for (int c = 0; c < CONNECTIONS; c++) CHECK(write(fds[c], request, REQUEST));
    for (double end = now() + seconds; now() < end;) {
        struct epoll_event events[CONNECTIONS];
        int count = epoll_wait(epoll, events, CONNECTIONS, 100);
        for (int i = 0; i < count; i++) {
            if (read(events[i].data.fd, bytes, ANSWER) != ANSWER) exit(1);
            CHECK(write(events[i].data.fd, request, REQUEST));
        }
    }
    exit(0);
}

static uint64_t *shared_count;
static void tell(void) { *shared_count = served; }
static void count_at_exit(uint64_t *count) {
    shared_count = count;
    atexit(tell);
}

/* CPU time of a server of its own per request, in microseconds. */
static double measure(int way, double seconds) {
    int one = 1, cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int listener = CHECK(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    CHECK(setsockopt(listener, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    CHECK(bind(listener, (void *)&at, sizeof at));
    CHECK(listen(listener, CONNECTIONS));
    CHECK(getsockname(listener, (void *)&at, &length));
    uint64_t *count = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t load = CHECK(fork());
    if (!load) {
        stay_on(cores - 1);
        client(at.sin_port, seconds);
    }
    pid_t server = CHECK(fork());
    if (!server) {
        stay_on(0);
        for (int f = 0; f < FILES; f++) {
            char name[64];
            snprintf(name, sizeof name, "/tmp/spike-%d-%d", getpid(), f);
            files[f] = CHECK(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600));
            unlink(name);
        }
        for (int c = 0; c < CONNECTIONS; c++) {
            sockets[c] = CHECK(accept4(listener, 0, 0, way <= EPOLL_V ? SOCK_NONBLOCK : 0));
            setsockopt(sockets[c], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        count_at_exit(count);
        if (way <= EPOLL_V) serve_by_epoll(way);
        else serve_by_ring(way);
    }
    close(listener);
    struct rusage usage;
    int status;
    CHECK(waitpid(load, &status, 0));
    CHECK(wait4(server, &status, 0, &usage));
    if (WEXITSTATUS(status)) return -1;
    double cpu = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
                 (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    return cpu * 1e6 / *count;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 2;
    int rounds = argc > 2 ? atoi(argv[2]) : 5;
    for (int way = 0; way < WAYS; way++) printf("%16s", NAMES[way]);
    puts("   (CPU µs per request)");
    fflush(stdout);
    for (int round = 0; round < rounds; round++) {
        double took[WAYS];
        for (int i = 0; i < WAYS; i++) {
            int way = (round + i) % WAYS;
            took[way] = measure(way, seconds);
        }
        for (int way = 0; way < WAYS; way++) printf("%16.2f", took[way]);
        putchar('\n');
        fflush(stdout);
    }
    return 0;
}
