/* Shifts the wall clock of one process, but not its monotonic clock, by the seconds in the file
   named by SOAK_CLOCK, like a step of the machine's clock. Preloaded; Python calls these. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *step;

__attribute__((constructor)) static void open_step(void)
{
    const char *path = getenv("SOAK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
    if (page != MAP_FAILED)
        step = page;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (!failed && clock == CLOCK_REALTIME && step)
        at->tv_sec += *step;
    return failed;
}

time_t time(time_t *kept)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    if (kept)
        *kept = at.tv_sec;
    return at.tv_sec;
}
