#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif

#include "mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(ck_mapping_error *error, const char *code, const char *text) {
    snprintf(error->code, sizeof error->code, "%s", code);
    snprintf(error->text, sizeof error->text, "%s", text);
}

/* Where a range must lie. Returns 0 and says so when it does not. */
static int fits(uint64_t size, uint64_t offset, uint64_t *bytes, ck_mapping_error *error) {
    if (offset > size || (*bytes != UINT64_MAX && *bytes > size - offset)) {
        char text[160];
        snprintf(text, sizeof text, "the file has %llu bytes, which the range does not lie in",
                 (unsigned long long) size);
        say(error, "ERANGE", text);
        return 0;
    }
    if (*bytes == UINT64_MAX) {
        *bytes = size - offset;
    }
    if (*bytes > SIZE_MAX / 2) {
        say(error, "ENOMEM", "the range is too large for this system");
        return 0;
    }
    return 1;
}

#if !defined(_WIN32)

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct ck_mapping {
    int file;
    struct stat opened;
    void *base; /* NULL: of no bytes, of which there is no mapping */
    size_t base_bytes;
    size_t skipped; /* to the range's first byte: mappings begin at pages */
    uint64_t bytes;
};

static void say_errno(ck_mapping_error *error) {
    static const struct {
        int number;
        const char *name;
    } names[] = {
        { ENOENT, "ENOENT" }, { EACCES, "EACCES" }, { EPERM, "EPERM" },   { EISDIR, "EISDIR" }, { ELOOP, "ELOOP" },
        { EMFILE, "EMFILE" }, { ENFILE, "ENFILE" }, { ENOMEM, "ENOMEM" }, { ENOTDIR, "ENOTDIR" }, { EIO, "EIO" },
    };
    const int number = errno;
    const char *code = "";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            code = names[i].name;
        }
    }
    say(error, code, strerror(number));
}

#if defined(__APPLE__)
#define CHANGED_AT st_mtimespec
#else
#define CHANGED_AT st_mtim
#endif

ck_mapping *ck_mapping_open(const char *path, uint64_t offset, uint64_t bytes, ck_mapping_error *error) {
    ck_mapping *const mapping = calloc(1, sizeof *mapping);
    if (mapping == NULL) {
        say(error, "ENOMEM", "there is not enough memory");
        return NULL;
    }
    /* A pipe or device would make it wait. */
    mapping->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (mapping->file < 0) {
        say_errno(error);
        free(mapping);
        return NULL;
    }
    if (fstat(mapping->file, &mapping->opened) != 0) {
        say_errno(error);
        ck_mapping_close(mapping);
        return NULL;
    }
    if (!S_ISREG(mapping->opened.st_mode)) {
        say(error, "EINVAL", "it is not a regular file");
        ck_mapping_close(mapping);
        return NULL;
    }
    if (!fits((uint64_t) mapping->opened.st_size, offset, &bytes, error)) {
        ck_mapping_close(mapping);
        return NULL;
    }
    mapping->bytes = bytes;
    if (bytes == 0) {
        return mapping;
    }
    const uint64_t page = (uint64_t) sysconf(_SC_PAGESIZE);
    mapping->skipped = (size_t) (offset % page);
    mapping->base_bytes = (size_t) bytes + mapping->skipped;
    void *const base = mmap(NULL, mapping->base_bytes, PROT_READ, MAP_SHARED, mapping->file,
                            (off_t) (offset - mapping->skipped));
    if (base == MAP_FAILED) {
        say_errno(error);
        ck_mapping_close(mapping);
        return NULL;
    }
    mapping->base = base;
    return mapping;
}

const void *ck_mapping_data(const ck_mapping *mapping) {
    return mapping->base == NULL ? NULL : (const char *) mapping->base + mapping->skipped;
}

int ck_mapping_is_unchanged(const ck_mapping *mapping) {
    struct stat now;
    return fstat(mapping->file, &now) == 0 && now.st_size == mapping->opened.st_size &&
           now.CHANGED_AT.tv_sec == mapping->opened.CHANGED_AT.tv_sec &&
           now.CHANGED_AT.tv_nsec == mapping->opened.CHANGED_AT.tv_nsec;
}

void ck_mapping_close(ck_mapping *mapping) {
    if (mapping->base != NULL) {
        munmap(mapping->base, mapping->base_bytes);
    }
    close(mapping->file);
    free(mapping);
}

#else

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

struct ck_mapping {
    HANDLE file;
    BY_HANDLE_FILE_INFORMATION opened;
    HANDLE section;
    void *base; /* NULL: of no bytes */
    size_t skipped;
    uint64_t bytes;
};

static void say_last_error(ck_mapping_error *error) {
    const DWORD number = GetLastError();
    const char *code = number == ERROR_FILE_NOT_FOUND || number == ERROR_PATH_NOT_FOUND ? "ENOENT"
                       : number == ERROR_ACCESS_DENIED || number == ERROR_SHARING_VIOLATION ? "EACCES"
                       : number == ERROR_NOT_ENOUGH_MEMORY || number == ERROR_COMMITMENT_LIMIT ? "ENOMEM"
                                                                                               : "";
    char text[64];
    snprintf(text, sizeof text, "Windows error %lu", number);
    say(error, code, text);
}

static int is_same(const BY_HANDLE_FILE_INFORMATION *a, const BY_HANDLE_FILE_INFORMATION *b) {
    return a->nFileSizeHigh == b->nFileSizeHigh && a->nFileSizeLow == b->nFileSizeLow &&
           a->ftLastWriteTime.dwHighDateTime == b->ftLastWriteTime.dwHighDateTime &&
           a->ftLastWriteTime.dwLowDateTime == b->ftLastWriteTime.dwLowDateTime;
}

ck_mapping *ck_mapping_open(const char *path, uint64_t offset, uint64_t bytes, ck_mapping_error *error) {
    const int length = MultiByteToWideChar(CP_UTF8, 0, path, -1, NULL, 0);
    wchar_t *const wide = malloc(((size_t) length + 1) * sizeof(wchar_t));
    ck_mapping *const mapping = calloc(1, sizeof *mapping);
    if (wide == NULL || mapping == NULL) {
        say(error, "ENOMEM", "there is not enough memory");
        free(wide);
        free(mapping);
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, length);
    wide[length] = L'\0';
    mapping->file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                                FILE_FLAG_SEQUENTIAL_SCAN, NULL);
    free(wide);
    if (mapping->file == INVALID_HANDLE_VALUE || !GetFileInformationByHandle(mapping->file, &mapping->opened)) {
        say_last_error(error);
        ck_mapping_close(mapping);
        return NULL;
    }
    if (GetFileType(mapping->file) != FILE_TYPE_DISK) {
        say(error, "EINVAL", "it is not a regular file");
        ck_mapping_close(mapping);
        return NULL;
    }
    const uint64_t size = (uint64_t) mapping->opened.nFileSizeHigh << 32 | mapping->opened.nFileSizeLow;
    if (!fits(size, offset, &bytes, error)) {
        ck_mapping_close(mapping);
        return NULL;
    }
    mapping->bytes = bytes;
    if (bytes == 0) {
        return mapping;
    }
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    mapping->skipped = (size_t) (offset % system.dwAllocationGranularity);
    const uint64_t from = offset - mapping->skipped;
    mapping->section = CreateFileMappingW(mapping->file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (mapping->section != NULL) {
        mapping->base = MapViewOfFile(mapping->section, FILE_MAP_READ, (DWORD) (from >> 32), (DWORD) from,
                                      (SIZE_T) (bytes + mapping->skipped));
    }
    if (mapping->base == NULL) {
        say_last_error(error);
        ck_mapping_close(mapping);
        return NULL;
    }
    return mapping;
}

const void *ck_mapping_data(const ck_mapping *mapping) {
    return mapping->base == NULL ? NULL : (const char *) mapping->base + mapping->skipped;
}

int ck_mapping_is_unchanged(const ck_mapping *mapping) {
    BY_HANDLE_FILE_INFORMATION now;
    return GetFileInformationByHandle(mapping->file, &now) && is_same(&now, &mapping->opened);
}

void ck_mapping_close(ck_mapping *mapping) {
    if (mapping->base != NULL) {
        UnmapViewOfFile(mapping->base);
    }
    if (mapping->section != NULL) {
        CloseHandle(mapping->section);
    }
    if (mapping->file != INVALID_HANDLE_VALUE) {
        CloseHandle(mapping->file);
    }
    free(mapping);
}

#endif

uint64_t ck_mapping_bytes(const ck_mapping *mapping) { return mapping->bytes; }
