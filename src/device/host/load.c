/* Loads shared objects from memory. */
#include "device/host/host.h"

#include "base/file.h"
#include "base/status.h"
#include "base/writing.h"
#include "base/temp.h"

#include <dlfcn.h>
#include <fenv.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path to a file descriptor that no other loaded object has. dlopen returns the library that it loaded under the same
 * path before, even if the descriptor was closed and its number used again. So the path encodes the file's inode
 * number, which is unique while the file is mapped: "/." for a one bit, "/" for a zero. */
static void unique_path(char out[192], int fd, uint64_t inode)
{
    char *at = out + snprintf(out, 16, "/proc/self/fd");
    for (; inode; inode >>= 1) {
        *at++ = '/';
        if (inode & 1)
            *at++ = '.';
    }
    snprintf(at, 16, "/%d", fd);
}

/* Objects that were linked with -Ofast or -ffast-math set the loading thread's floating-point mode. */
static void *open_library(const char *path)
{
    fenv_t mode;
    (void)fegetenv(&mode);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    (void)fesetenv(&mode);
    return library;
}

/* Loads without a file system, so it works even if the temporary folder forbids execution. NULL if it cannot. */
static void *open_from_memory(const void *binary, size_t n_bytes)
{
    int fd = md_above_standard(memfd_create("multidispatch-kernel", MFD_CLOEXEC));
    if (fd < 0)
        return NULL;
    void *library = NULL;
    struct stat about;
    if (md_file_write_all(fd, binary, n_bytes) && fstat(fd, &about) == 0) {
        char path[192];
        unique_path(path, fd, (uint64_t)about.st_ino);
        library = open_library(path);
    }
    close(fd);
    return library;
}

static md_status open_from_folder(void **library, const void *binary, size_t n_bytes, char *const *environment)
{
    md_temp folder;
    char path[sizeof folder.path + 16];
    MD_TRY(md_temp_make(&folder, environment));
    snprintf(path, sizeof path, "%s/kernel.so", folder.path);
    md_status status = md_file_write(path, binary, n_bytes);
    if (status == MD_OK && !(*library = open_library(path))) {
        const char *reason = dlerror();
        size_t n_path = strlen(path);
        /* without the path: the file is removed before anyone reads the message */
        if (reason && strncmp(reason, path, n_path) == 0 && reason[n_path] == ':')
            reason += n_path + 1 + strspn(reason + n_path + 1, " ");
        status = md_fail(MD_DEVICE, "a compiled kernel cannot be loaded: %.800s", reason ? reason : "no reason given");
    }
    md_temp_remove(&folder); /* the mapping stays valid */
    return status;
}

static bool is_inside(size_t n_bytes, uint64_t offset, uint64_t size)
{
    return offset <= n_bytes && size <= n_bytes - offset;
}

static ElfW(Phdr) segment_of(const char *binary, const ElfW(Ehdr) * head, int i)
{
    ElfW(Phdr) segment;
    memcpy(&segment, binary + head->e_phoff + (size_t)i * sizeof segment, sizeof segment);
    return segment;
}

/* True if the file holds everything that the loader maps: a truncated file would end the process by SIGBUS. */
static bool is_whole(const char *binary, size_t n_bytes)
{
    ElfW(Ehdr) head;
    if (n_bytes < sizeof head)
        return false;
    memcpy(&head, binary, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr)) ||
        !is_inside(n_bytes, head.e_phoff, (uint64_t)head.e_phnum * sizeof(ElfW(Phdr))))
        return false;
    for (int i = 0; i < head.e_phnum; i++) {
        const ElfW(Phdr) segment = segment_of(binary, &head, i);
        if (!is_inside(n_bytes, segment.p_offset, segment.p_filesz))
            return false;
    }
    return head.e_phnum > 0;
}

/* Reads every page of the code and the constants once. The first call is then not slowed by page faults. And Clang
 * reads constants under masks: where all lanes of a mask are off, the processor looks up a page that nothing has read
 * yet in microcode (0.6 us), and does so each time, because nothing is read. */
static void read_pages(void *library, const char *binary)
{
    enum { PAGE = 4096 }; /* the smallest */
    struct link_map *map = NULL;
    ElfW(Ehdr) head;
    memcpy(&head, binary, sizeof head);
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
        return;
    for (int i = 0; i < head.e_phnum; i++) {
        const ElfW(Phdr) segment = segment_of(binary, &head, i);
        const volatile char *at = (const volatile char *)(uintptr_t)(map->l_addr + segment.p_vaddr);
        if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_R))
            continue;
        for (size_t k = 0; k < segment.p_filesz; k += PAGE - ((uintptr_t)at + k) % PAGE)
            (void)at[k];
    }
}

md_status md_dev_host_load(void **library, md_kn_host_entry *entry, const void *binary, size_t n_bytes,
                           const char *name, char *const *environment)
{
    if (!is_whole(binary, n_bytes))
        return md_fail(MD_DEVICE, "a compiled kernel cannot be loaded: %zu bytes that are no whole shared object",
                       n_bytes);
    void *lib = open_from_memory(binary, n_bytes);
    if (!lib)
        MD_TRY(open_from_folder(&lib, binary, n_bytes, environment));
    void *symbol = dlsym(lib, name);
    if (!symbol) {
        dlclose(lib);
        return md_fail(MD_DEVICE, "the compiled kernel has no function '%.159s'", name);
    }
    read_pages(lib, binary);
    *library = lib;
    memcpy(entry, &symbol, sizeof symbol); /* ISO C has no cast from an object pointer to a function pointer */
    return MD_OK;
}
