/*
 * covey-launch [--parent PID] [--cgroup DIRECTORY]... [--limit NAME=NUMBER]... [--] PROGRAM [ARGUMENT...]
 *
 * Runs PROGRAM so that it cannot outlive the process that asked for it, however that one ends (kill -9 included), and
 * that it uses no more than it may.
 *
 *   Linux    a process group of its own, the parent-death signal, then exec: the pid stays the same. The signal is
 *            the kernel's, so nothing has to stay behind and watch. Keys of the session it was started in stay
 *            with the others of that session: the program gets a keyring of its own, where there are any.
 *   macOS    a process group of its own and exec too; a small watcher process waits in kqueue for the end of
 *            either, and kills the group when it was the parent's.
 *   Windows  the program is started in a Job Object that ends what is in it when its last handle is closed. The
 *            launcher holds that handle, waits for both, and passes the exit code on; the pid is another one.
 *
 * The parent may already be gone when this program starts. With --parent (the starter's own pid) that is noticed
 * before anything runs; without, the parent found at start counts. On Linux the parent is, strictly, the thread
 * that forked: it must live as long as the program shall.
 *
 * --cgroup, Linux: joins this control group before PROGRAM runs, so that nothing of it is ever outside.
 * --limit: `core` `data` `fsize` `nofile` `nproc`, as setrlimit(2) counts them (bytes, files, processes of the user);
 * soft and hard alike, and not above what is already set. Windows has `data` (of all processes of the job together)
 * and `nproc`, and ignores the others.
 *
 * PROGRAM gets descriptors 0 to 3, and none of the others that may be open (not on Windows, where it gets three).
 *
 * Exit codes before PROGRAM runs: 64 wrong usage, 70 the parent is gone or cannot be watched, 71 a limit
 * cannot be set, 126 PROGRAM cannot be
 * run, 127 it does not exist. Afterwards they are PROGRAM's.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 64,
    EXIT_PARENT = 70,
    EXIT_LIMIT = 71,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
};

static const char usage[] =
    "usage: covey-launch [--parent PID] [--cgroup DIRECTORY]... [--limit NAME=NUMBER]... [--] PROGRAM [ARGUMENT...]\n";

#if !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif
#include <sys/types.h>
#include <unistd.h>

/* A decimal process id above 1, or 0. */
static pid_t parse_pid(const char * text) {
    char * end = NULL;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value <= 1 || value > INT_MAX) {
        return 0;
    }
    return (pid_t) value;
}

static int fail(int code, const char * what, int error) {
    fprintf(stderr, "covey-launch: %s: %s\n", what, strerror(error));
    return code;
}

static int parent_is_gone(void) {
    fputs("covey-launch: the parent process has ended\n", stderr);
    return EXIT_PARENT;
}

static const struct {
    const char * name;
    int resource;
} limit_names[] = {
    { "core", RLIMIT_CORE },   { "data", RLIMIT_DATA },   { "fsize", RLIMIT_FSIZE },
    { "nofile", RLIMIT_NOFILE }, { "nproc", RLIMIT_NPROC },
};

/* `NAME=NUMBER`. Returns 0 when it is set, or the exit code. */
static int set_limit(const char * text) {
    const char * equals = strchr(text, '=');
    char * end = NULL;
    errno = 0;
    const unsigned long long number = equals == NULL ? 0 : strtoull(equals + 1, &end, 10);
    if (equals == NULL || equals[1] < '0' || equals[1] > '9' || *end != '\0' || errno != 0) {
        fprintf(stderr, "covey-launch: --limit needs NAME=NUMBER, not %s\n%s", text, usage);
        return EXIT_USAGE;
    }
    for (size_t index = 0; index < sizeof limit_names / sizeof limit_names[0]; index++) {
        const char * name = limit_names[index].name;
        if (strlen(name) != (size_t) (equals - text) || strncmp(name, text, strlen(name)) != 0) {
            continue;
        }
        const int resource = limit_names[index].resource;
        struct rlimit limit;
        if (getrlimit(resource, &limit) != 0) {
            return fail(EXIT_LIMIT, text, errno);
        }
        const rlim_t wanted = (rlim_t) number;
        if (limit.rlim_max == RLIM_INFINITY || wanted < limit.rlim_max) {
            limit.rlim_max = wanted;
        }
        limit.rlim_cur = limit.rlim_max;
        return setrlimit(resource, &limit) == 0 ? 0 : fail(EXIT_LIMIT, text, errno);
    }
    fprintf(stderr, "covey-launch: there is no limit of that name: %s\n%s", text, usage);
    return EXIT_USAGE;
}

/*
 * Closes what was open here by chance: a directory of somebody else's would be a way out of a sandbox. The streams and
 * the one after them, by which a sandbox gets its options, are the program's.
 */
static void close_others(void) {
    const int first = STDERR_FILENO + 2;
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned) first, ~0U, 0U) == 0) {
        return;
    }
#endif
    const long limit = sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (limit > 0 && limit < 65536 ? (int) limit : 65536); fd++) {
        close(fd);
    }
}

/* Puts this process into the control group of a directory. Returns 0, or the exit code. */
static int join_cgroup(const char * directory) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    if (length < 0 || (size_t) length >= sizeof path) {
        return fail(EXIT_LIMIT, directory, ENAMETOOLONG);
    }
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) {
        return fail(EXIT_LIMIT, path, errno);
    }
    const ssize_t written = write(file, "0", 1);
    const int error = errno;
    close(file);
    return written == 1 ? 0 : fail(EXIT_LIMIT, path, error);
}

#if defined(__linux__)

#include <sys/prctl.h>

/* keyctl(KEYCTL_JOIN_SESSION_KEYRING, NULL): a new one without a name. Kernels without keys refuse, and have none. */
static void leave_session_keys(void) {
    syscall(SYS_keyctl, 1L, NULL);
}

/* Returns 0 when the program may run. */
static int tie_to_parent(pid_t parent) {
    leave_session_keys();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        return fail(EXIT_PARENT, "cannot set the parent-death signal", errno);
    }
    /* A parent that ended before the line above sent nothing; then another process is our parent by now. */
    return getppid() == parent ? 0 : parent_is_gone();
}

#else

#include <sys/event.h>
#include <sys/time.h>
#include <sys/wait.h>

/* Runs in the watcher. Ends when either process has ended. `ready` is written to once both are watched. */
static void watch(pid_t parent, pid_t program, int ready) {
    struct kevent changes[2];
    EV_SET(&changes[0], (uintptr_t) program, EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT, 0, NULL);
    EV_SET(&changes[1], (uintptr_t) parent, EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT, 0, NULL);
    const int queue = kqueue();
    /* Registering a process that has ended fails: then the launcher sees the pipe close without a byte. */
    if (queue < 0 || kevent(queue, changes, 2, NULL, 0, NULL) != 0) {
        return;
    }
    const char byte = 1;
    if (write(ready, &byte, 1) != 1) {
        return;
    }
    close(ready);
    for (;;) {
        struct kevent event;
        const int count = kevent(queue, NULL, 0, &event, 1, NULL);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count == 1 && (pid_t) event.ident == program) {
            return;
        }
        /* The parent has ended, or it can no longer be watched. */
        kill(-program, SIGKILL);
        kill(program, SIGKILL);
        return;
    }
}

/* Returns 0 when the program may run. */
static int tie_to_parent(pid_t parent) {
    const pid_t program = getpid();
    int ready[2];
    if (pipe(ready) != 0) {
        return fail(EXIT_PARENT, "cannot create a pipe", errno);
    }
    const pid_t middle = fork();
    if (middle < 0) {
        return fail(EXIT_PARENT, "cannot fork", errno);
    }
    if (middle == 0) {
        /* Forked twice, so that the program never gets a child that it does not know. */
        const pid_t watcher = fork();
        if (watcher != 0) {
            _exit(watcher < 0 ? 1 : 0);
        }
        /* Out of the program's group, and without its streams, whose other ends wait for them to close. */
        setsid();
        const int limit = (int) sysconf(_SC_OPEN_MAX);
        for (int fd = 0; fd < (limit > 0 && limit < 4096 ? limit : 4096); fd++) {
            if (fd != ready[1]) {
                close(fd);
            }
        }
        watch(parent, program, ready[1]);
        _exit(0);
    }
    close(ready[1]);
    int status = 0;
    while (waitpid(middle, &status, 0) < 0 && errno == EINTR) {
    }
    char byte = 0;
    ssize_t count;
    do {
        count = read(ready[0], &byte, 1);
    } while (count < 0 && errno == EINTR);
    close(ready[0]);
    if (getppid() != parent) {
        return parent_is_gone();
    }
    if (count != 1) {
        fputs("covey-launch: the parent process cannot be watched\n", stderr);
        return EXIT_PARENT;
    }
    return 0;
}

#endif

int main(int argc, char ** argv) {
    pid_t parent = getppid();
    int next = 1;
    if (next < argc && strcmp(argv[next], "--parent") == 0) {
        parent = next + 1 < argc ? parse_pid(argv[next + 1]) : 0;
        if (parent == 0) {
            fputs("covey-launch: --parent needs a process id\n", stderr);
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
        next += 2;
    }
    /* Looked through now, done last: a control group is joined before the limits, which may forbid it. */
    const int options = next;
    while (next + 1 < argc && (strcmp(argv[next], "--cgroup") == 0 || strcmp(argv[next], "--limit") == 0)) {
        next += 2;
    }
    const int options_end = next;
    if (next < argc && strcmp(argv[next], "--") == 0) {
        next++;
    }
    if (next >= argc || argv[next][0] == '-') {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    /* Fails only for a session leader, which has a group of its own already. */
    if (setpgid(0, 0) != 0 && getpgrp() != getpid()) {
        return fail(EXIT_PARENT, "cannot make a process group", errno);
    }
    const int refused = tie_to_parent(parent);
    if (refused != 0) {
        return refused;
    }
    for (int at = options; at < options_end; at += 2) {
        const int failed = strcmp(argv[at], "--cgroup") == 0 ? join_cgroup(argv[at + 1]) : 0;
        if (failed != 0) {
            return failed;
        }
    }
    for (int at = options; at < options_end; at += 2) {
        const int failed = strcmp(argv[at], "--limit") == 0 ? set_limit(argv[at + 1]) : 0;
        if (failed != 0) {
            return failed;
        }
    }
    close_others();
    execvp(argv[next], &argv[next]);
    const int error = errno;
    return fail(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN, argv[next], error);
}

#else /* _WIN32 */

#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <tlhelp32.h>
#include <wchar.h>

static int fail(int code, const char * what) {
    fprintf(stderr, "covey-launch: %s (Windows error %lu)\n", what, GetLastError());
    return code;
}

/* The process that started this one, or 0. */
static DWORD parent_process_id(void) {
    const HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    if (snapshot == INVALID_HANDLE_VALUE) {
        return 0;
    }
    const DWORD self = GetCurrentProcessId();
    DWORD parent = 0;
    PROCESSENTRY32W entry;
    entry.dwSize = sizeof(entry);
    if (Process32FirstW(snapshot, &entry)) {
        do {
            if (entry.th32ProcessID == self) {
                parent = entry.th32ParentProcessID;
            }
        } while (parent == 0 && Process32NextW(snapshot, &entry));
    }
    CloseHandle(snapshot);
    return parent;
}

static ULONGLONG creation_time(HANDLE process) {
    FILETIME created, exited, kernel, user;
    if (!GetProcessTimes(process, &created, &exited, &kernel, &user)) {
        return 0;
    }
    return ((ULONGLONG) created.dwHighDateTime << 32) | created.dwLowDateTime;
}

/* The rest of a command line after its first argument, quoting as the C runtime reads it. */
static wchar_t * skip_argument(wchar_t * line) {
    int quoted = 0;
    while (*line != L'\0' && (quoted || (*line != L' ' && *line != L'\t'))) {
        int slashes = 0;
        while (*line == L'\\') {
            slashes++;
            line++;
        }
        if (*line == L'"') {
            if (slashes % 2 == 0) {
                quoted = !quoted;
            }
            line++;
        } else if (slashes == 0) {
            line++;
        }
    }
    while (*line == L' ' || *line == L'\t') {
        line++;
    }
    return line;
}

/* `data=BYTES` and `nproc=NUMBER` of the whole job; the others have no counterpart here. */
static void add_limit(JOBOBJECT_EXTENDED_LIMIT_INFORMATION * limits, const wchar_t * text) {
    if (wcsncmp(text, L"data=", 5) == 0) {
        limits->BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_JOB_MEMORY;
        limits->JobMemoryLimit = (SIZE_T) wcstoull(text + 5, NULL, 10);
    } else if (wcsncmp(text, L"nproc=", 6) == 0) {
        limits->BasicLimitInformation.LimitFlags |= JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
        limits->BasicLimitInformation.ActiveProcessLimit = wcstoul(text + 6, NULL, 10);
    }
}

int wmain(int argc, wchar_t ** argv) {
    DWORD parent_id = 0;
    /* The program's own arguments are passed on as they were written, without quoting them again. */
    wchar_t * line = skip_argument(GetCommandLineW());
    int next = 1;
    if (next < argc && wcscmp(argv[next], L"--parent") == 0) {
        wchar_t * end = NULL;
        parent_id = next + 1 < argc ? wcstoul(argv[next + 1], &end, 10) : 0;
        if (parent_id == 0 || *end != L'\0') {
            fputs("covey-launch: --parent needs a process id\n", stderr);
            fputs(usage, stderr);
            return EXIT_USAGE;
        }
        line = skip_argument(skip_argument(line));
        next += 2;
    }
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;
    memset(&limits, 0, sizeof(limits));
    limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
    while (next + 1 < argc && wcscmp(argv[next], L"--limit") == 0) {
        add_limit(&limits, argv[next + 1]);
        line = skip_argument(skip_argument(line));
        next += 2;
    }
    if (next < argc && wcscmp(argv[next], L"--") == 0) {
        line = skip_argument(line);
        next++;
    }
    if (next >= argc || argv[next][0] == L'-') {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }

    if (parent_id == 0) {
        parent_id = parent_process_id();
    }
    const HANDLE parent =
        OpenProcess(SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, FALSE, parent_id);
    /* Process ids are used again: a parent is older than its child. */
    if (parent == NULL || WaitForSingleObject(parent, 0) == WAIT_OBJECT_0 ||
        creation_time(parent) > creation_time(GetCurrentProcess())) {
        fputs("covey-launch: the parent process has ended\n", stderr);
        return EXIT_PARENT;
    }

    const HANDLE job = CreateJobObjectW(NULL, NULL);
    if (job == NULL ||
        !SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof(limits))) {
        return fail(EXIT_PARENT, "cannot create a job object");
    }

    STARTUPINFOW startup;
    memset(&startup, 0, sizeof(startup));
    startup.cb = sizeof(startup);
    startup.dwFlags = STARTF_USESTDHANDLES;
    startup.hStdInput = GetStdHandle(STD_INPUT_HANDLE);
    startup.hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE);
    startup.hStdError = GetStdHandle(STD_ERROR_HANDLE);
    PROCESS_INFORMATION process;
    if (!CreateProcessW(NULL, line, NULL, NULL, TRUE, CREATE_SUSPENDED | CREATE_NO_WINDOW, NULL, NULL,
                        &startup, &process)) {
        const DWORD error = GetLastError();
        const int missing = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
        return fail(missing ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN, "cannot run the program");
    }
    /* It runs only once it is in the job, so whatever it starts is in the job too. */
    if (!AssignProcessToJobObject(job, process.hProcess)) {
        const int code = fail(EXIT_PARENT, "cannot put the program into the job object");
        TerminateProcess(process.hProcess, 1);
        return code;
    }
    ResumeThread(process.hThread);
    CloseHandle(process.hThread);

    const HANDLE either[2] = { process.hProcess, parent };
    if (WaitForMultipleObjects(2, either, FALSE, INFINITE) != WAIT_OBJECT_0) {
        TerminateJobObject(job, EXIT_PARENT);
        return EXIT_PARENT;
    }
    DWORD code = EXIT_CANNOT_RUN;
    GetExitCodeProcess(process.hProcess, &code);
    /* The job's handle closes with this process, and ends whatever the program left behind. */
    return (int) code;
}

#endif
