/*
 * Reading a mapped file that became shorter raises SIGBUS. The handler takes the thread out of the work when the
 * address lies in what it was reading, and otherwise does what would have happened without it.
 */
#include "internal.h"

#if defined(_WIN32)

/* A mapped file cannot be made shorter here. A disk that fails ends the process, which its parent notices. */
int ck_guarded(void (*work)(void *context), void *context, const void *a, const void *b, size_t bytes) {
    (void) a;
    (void) b;
    (void) bytes;
    work(context);
    return 1;
}

#else

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

struct guard {
    sigjmp_buf leave;
    uintptr_t a, b;
    size_t bytes;
};

static _Thread_local struct guard *volatile current;
static struct sigaction before;
static pthread_once_t installed = PTHREAD_ONCE_INIT;

static int is_inside(const struct guard *guard, uintptr_t at) {
    return (guard->a != 0 && at - guard->a < guard->bytes) || (guard->b != 0 && at - guard->b < guard->bytes);
}

static void on_bus_error(int number, siginfo_t *info, void *context) {
    struct guard *const guard = current;
    if (guard != NULL && is_inside(guard, (uintptr_t) info->si_addr)) {
        current = NULL;
        siglongjmp(guard->leave, 1);
    }
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        /* The instruction runs again, and this time the default happens. */
        signal(SIGBUS, SIG_DFL);
    }
}

static void install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_bus_error;
    /* The mask is not restored by the jump, so the signal is not blocked in the first place. */
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

int ck_guarded(void (*work)(void *context), void *context, const void *a, const void *b, size_t bytes) {
    pthread_once(&installed, install);
    struct guard guard;
    guard.a = (uintptr_t) a;
    guard.b = (uintptr_t) b;
    guard.bytes = bytes;
    if (sigsetjmp(guard.leave, 0) != 0) {
        return 0;
    }
    current = &guard;
    work(context);
    current = NULL;
    return 1;
}

#endif
