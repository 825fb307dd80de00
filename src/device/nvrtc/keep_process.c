/* Redirects functions that a loaded library imports and that change signals, limits or the end of the process. */
#include "device/nvrtc/nvrtc.h"

#include "base/status.h"
#include "base/task/process.h"
#include "base/task/jobs.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Replacements: they report the present handler and change nothing */

static void (*answer_signal(int number, void (*handler)(int)))(int)
{
    struct sigaction now;
    (void)handler;
    return sigaction(number, NULL, &now) == 0 ? now.sa_handler : SIG_ERR;
}

static int answer_sigaction(int number, const struct sigaction *wanted, struct sigaction *old)
{
    (void)wanted;
    return sigaction(number, NULL, old);
}

static int answer_limit(int resource, const struct rlimit *wanted)
{
    (void)resource, (void)wanted;
    return 0;
}

/* What the library registers while it works would be destroyed first of all in exit(), under a call of it that still
 * runs. It stays loaded, so nothing needs to be destroyed. */
static int answer_atexit(void (*destroy)(void *object), void *object, void *library)
{
    (void)destroy, (void)object, (void)library;
    return 0;
}

/* ---- Its table of imported functions. ELF as in the System V ABI (generic, x86-64 and AArch64 supplements):
 * relocations of the kinds JUMP_SLOT and GLOB_DAT name a symbol and the word that holds its address. */

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#else
enum { JUMP_SLOT = -1, GLOB_DAT = -1 };
#endif

typedef struct imports {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * list[2]; /* relocations of function calls, and of everything else */
    size_t n[2], n_unnamed; /* number of entries without a symbol at the start of the second list (200,000 in NVRTC) */
} imports;

/* glibc makes addresses of the dynamic section absolute; other loaders leave them relative. */
static const void *at(uintptr_t base, ElfW(Addr) address)
{
    return (const void *)(address < base ? base + address : address);
}

static bool read_imports(imports *out, const struct link_map *map)
{
    *out = (imports){.base = map->l_addr};
    for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB:
            out->symbols = at(out->base, d->d_un.d_ptr);
            break;
        case DT_STRTAB:
            out->names = at(out->base, d->d_un.d_ptr);
            break;
        case DT_JMPREL:
            out->list[0] = at(out->base, d->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            out->n[0] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_RELA:
            out->list[1] = at(out->base, d->d_un.d_ptr);
            break;
        case DT_RELACOUNT:
            out->n_unnamed = d->d_un.d_val;
            break;
        case DT_RELASZ:
            out->n[1] = d->d_un.d_val / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
    return out->symbols && out->names;
}

/* Stores an address; *is_new becomes true if another one was there. The loader may have made its page read-only. The
 * page stays writable afterwards, because another thread may be storing, too. */
static bool put(uintptr_t *word, uintptr_t value, bool *is_new)
{
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value)
        return true;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (mprotect((void *)((uintptr_t)word & ~(page - 1)), page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    *is_new = true;
    return true;
}

/* Replaces all imports of a name. True if all are `value` now, also if there are none. */
static bool redirect(const imports *from, const char *name, uintptr_t value, bool *is_new)
{
    bool is_done = true;
    for (int k = 0; k < 2; k++)
        for (size_t i = k == 1 ? from->n_unnamed : 0; from->list[k] && i < from->n[k]; i++) {
            const ElfW(Rela) *r = &from->list[k][i];
            const int kind = (int)ELF64_R_TYPE(r->r_info);
            if ((kind == JUMP_SLOT || kind == GLOB_DAT) &&
                !strcmp(from->names + from->symbols[ELF64_R_SYM(r->r_info)].st_name, name))
                is_done = put((uintptr_t *)(from->base + r->r_offset), value, is_new) && is_done;
        }
    return is_done;
}

/* An import and what replaces it. */
typedef struct replaced {
    const char *name;
    void (*replacement)(void);
} replaced;

static bool redirect_all(void *library, const replaced *list, int n)
{
    struct link_map *map = NULL;
    imports from;
    if (JUMP_SLOT < 0 || !library || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !map || !read_imports(&from, map))
        return false;
    md_exit_stay_loaded(); /* the library keeps calling the functions above */
    bool is_done = true, is_new = false;
    for (int i = 0; i < n; i++)
        is_done = redirect(&from, list[i].name, (uintptr_t)list[i].replacement, &is_new) && is_done;
    if (is_new)
        md_jobs_rest_at_exit(); /* not for each text */
    return is_done;
}

bool md_dev_keep_process(void *library)
{
    static const replaced list[] = {{"signal", (void (*)(void))answer_signal},
                                    {"__cxa_atexit", (void (*)(void))answer_atexit},
                                    {"sigaction", (void (*)(void))answer_sigaction},
                                    {"setrlimit", (void (*)(void))answer_limit},
                                    {"setrlimit64", (void (*)(void))answer_limit}};
    return redirect_all(library, list, MD_COUNT(list));
}

bool md_dev_keep_objects(void *library)
{
    static const replaced list[] = {{"__cxa_atexit", (void (*)(void))answer_atexit}};
    return redirect_all(library, list, MD_COUNT(list));
}
