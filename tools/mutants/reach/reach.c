/* Notes which code runs: what tools/mutate --make-reach builds calls this at each block (-fsanitize-coverage=trace-pc).
 * Each object that is loaded has a file in the folder REACH_DIR with a byte for each byte of its code, shared by all
 * processes and called <build id>-<address of the code>. Nothing is lost where a process is killed. With REACH_ONCE a
 * block's call becomes an instruction without effect once it was noted: then a test takes no longer than without. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_MODULES = 8192, NAME = 64 };

typedef struct module {
    _Atomic uintptr_t first; /* 0: not loaded now */
    uintptr_t n;
    unsigned char *seen;
    bool is_writable;
    char name[NAME];
} module;

static module modules[MAX_MODULES];
static int n_modules;
static atomic_flag lock = ATOMIC_FLAG_INIT;
static char folder[4096];
static bool notes_once;
static module nowhere;
/* initial-exec: read by one instruction, as this library is there from the start */
#define PER_THREAD __attribute__((tls_model("initial-exec"))) static _Thread_local
PER_THREAD module *last = &nowhere;
PER_THREAD bool is_busy;

void __sanitizer_cov_trace_pc(void);
void reach_case(const char *name);

static bool take(void)
{
    if (is_busy)
        return false;
    is_busy = true;
    while (atomic_flag_test_and_set(&lock))
        ;
    return true;
}

static void give(void)
{
    atomic_flag_clear(&lock);
    is_busy = false;
}

/* The build id of a loaded object in hexadecimal; empty where it has none. */
static void name_of(char out[NAME], const struct dl_phdr_info *info, uintptr_t first)
{
    out[0] = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        for (size_t at = 0; p->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < p->p_memsz;) {
            const char *note = (const char *)info->dlpi_addr + p->p_vaddr + at;
            const ElfW(Nhdr) *head = (const void *)note;
            const unsigned char *id = (const unsigned char *)note + sizeof *head + ((head->n_namesz + 3) & ~3u);
            if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && head->n_descsz <= 20) {
                for (unsigned k = 0; k < head->n_descsz; k++)
                    sprintf(out + 2 * k, "%02x", id[k]);
                sprintf(out + strlen(out), "-%lx", (unsigned long)(first - info->dlpi_addr));
                return;
            }
            at += sizeof *head + ((head->n_namesz + 3) & ~3u) + ((head->n_descsz + 3) & ~3u);
        }
    }
}

typedef struct search {
    uintptr_t pc, first, n;
    char name[NAME];
} search;

static int look(struct dl_phdr_info *info, size_t n, void *user)
{
    (void)n;
    search *s = user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t first = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && s->pc - first < p->p_memsz) {
            s->first = first;
            s->n = p->p_memsz;
            name_of(s->name, info, first);
            return 1;
        }
    }
    return 0;
}

static unsigned char *map(const char *name, size_t n)
{
    char path[sizeof folder + NAME + 1];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *seen =
        fd >= 0 && !ftruncate(fd, (off_t)n) ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return seen == MAP_FAILED ? NULL : seen;
}

static module *find(uintptr_t pc)
{
    search s = {.pc = pc};
    for (int i = 0; i < n_modules; i++)
        if (pc - modules[i].first < modules[i].n && modules[i].first)
            return &modules[i];
    if (!dl_iterate_phdr(look, &s) || !s.name[0])
        return NULL;
    int i = 0;
    while (i < n_modules && strcmp(modules[i].name, s.name))
        i++;
    if (i == n_modules) {
        unsigned char *seen = n_modules < MAX_MODULES ? map(s.name, s.n) : NULL;
        if (!seen)
            return NULL;
        modules[i].seen = seen;
        memcpy(modules[i].name, s.name, NAME);
        n_modules++;
    }
    const uintptr_t page = s.first & ~(uintptr_t)4095;
    modules[i].n = s.n;
    modules[i].first = s.first;
    modules[i].is_writable =
        notes_once && !mprotect((void *)page, s.first + s.n - page, PROT_READ | PROT_WRITE | PROT_EXEC);
    return &modules[i];
}

/* True for a call of __sanitizer_cov_trace_pc by way of the table of functions. What stands before pc may be the call
 * of a function that ended by jumping there. */
static bool is_note(uintptr_t call)
{
    enum { CALL = 5, DIRECT = 0xe8 };
    int32_t distance;
    memcpy(&distance, (char *)call + 1, sizeof distance);
    const unsigned char *at = (unsigned char *)(call + CALL + (uintptr_t)(intptr_t)distance);
    if (*(unsigned char *)call != DIRECT)
        return false;
    at += !memcmp(at, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0;
    at += *at == 0xf2;
    if (memcmp(at, "\xff\x25", 2))
        return false;
    memcpy(&distance, at + 2, sizeof distance);
    return *(void (**)(void))(at + 6 + distance) == __sanitizer_cov_trace_pc;
}

/* The call before pc does nothing from now on. The eight bytes around it, which are replaced at once, lie in one line
 * of the cache, so that other threads run the old instruction or the new one; a call in two lines stays. */
static void take_out(uintptr_t pc)
{
    enum { CALL = 5, LINE = 64 };
    static const unsigned char nothing[CALL] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    const uintptr_t call = pc - CALL, line = call & ~(uintptr_t)(LINE - 1);
    if (!is_note(call) || ((pc - 1) & ~(uintptr_t)(LINE - 1)) != line)
        return;
    const uintptr_t at = call + 8 > line + LINE ? line + LINE - 8 : call;
    uint64_t old = __atomic_load_n((uint64_t *)at, __ATOMIC_RELAXED), new;
    do {
        new = old;
        memcpy((char *)&new + (call - at), nothing, CALL);
    } while (!__atomic_compare_exchange_n((uint64_t *)at, &old, new, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

static void __attribute__((noinline)) note(uintptr_t pc)
{
    if (!folder[0] || !take())
        return;
    module *m = find(pc);
    if (m) {
        last = m;
        m->seen[pc - m->first] = 1;
        if (m->is_writable)
            take_out(pc);
    }
    give();
}

void __sanitizer_cov_trace_pc(void)
{
    const uintptr_t pc = (uintptr_t)__builtin_return_address(0);
    const module *m = last;
    const uintptr_t at = pc - m->first;
    if (at >= m->n || !m->first || !m->seen[at])
        note(pc);
}

/* Another object may be loaded where one was: all are looked for anew. */
int dlclose(void *library)
{
    static int (*real)(void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "dlclose");
    const int status = real(library);
    if (folder[0] && take()) {
        for (int i = 0; i < n_modules; i++)
            modules[i].first = 0;
        give();
    }
    return status;
}

/* What ran since the last call, here and in processes it started, is the case's: <object>@<name> has the offsets. */
void reach_case(const char *name)
{
    if (!folder[0] || !take())
        return;
    for (int i = 0; i < n_modules; i++) {
        char path[sizeof folder + NAME + 512];
        snprintf(path, sizeof path, "%s/%s@%s", folder, modules[i].name, name);
        FILE *out = NULL;
        for (uintptr_t k = 0; k < modules[i].n; k++) {
            if (!modules[i].seen[k])
                continue;
            const uint32_t offset = (uint32_t)k;
            if (out || (out = fopen(path, "ab")))
                fwrite(&offset, sizeof offset, 1, out);
            modules[i].seen[k] = 0;
        }
        if (out)
            fclose(out);
    }
    give();
}

static void __attribute__((constructor)) begin(void)
{
    const char *wanted = getenv("REACH_DIR");
    if (wanted && strlen(wanted) < sizeof folder)
        strcpy(folder, wanted);
    notes_once = getenv("REACH_ONCE") != NULL;
}
