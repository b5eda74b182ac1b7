/* A wall clock that is wrong: a library for LD_PRELOAD. Calls that ask for the time of day get it
 * shifted by the milliseconds that the first eight bytes of the file $SHIFTED_CLOCK hold, as a
 * number of the machine's own byte order. Whoever writes that file sets the clock of the process;
 * monotonic clocks and sleeps stay as they are, as they do when a machine's date is set. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift_ms;
static int (*libc_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void open_shift(void) {
    libc_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("SHIFTED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *bytes = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (!libc_clock_gettime || bytes == MAP_FAILED) {
        fputs("the clock cannot be shifted: $SHIFTED_CLOCK must name a file of eight bytes\n", stderr);
        abort();
    }
    shift_ms = bytes;
    close(file);
}

int clock_gettime(clockid_t id, struct timespec *time) {
    /* Another library's constructor may ask for the time first. */
    if (!libc_clock_gettime) open_shift();
    int result = libc_clock_gettime(id, time);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = time->tv_nsec + *shift_ms % 1000 * 1000000;
        int64_t carry = ns < 0 ? -1 : ns >= 1000000000 ? 1 : 0;
        time->tv_sec += *shift_ms / 1000 + carry;
        time->tv_nsec = ns - carry * 1000000000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    if (result == 0) *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
