/* Reads facts of a kernel from a cubin, which is an ELF file. */
#include "device/nvrtc/nvrtc.h"

#include "base/status.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Facts of kernels are in the sections .nv.info (all functions) and .nv.info.<kernel> (one): records of a format byte,
 * an attribute byte and 16 bits, which are the value or the size of the value that follows. */
enum { CUDA_MACHINE = 190, NAMED_ABI = 8, RESERVED_SHARED = 1024 };
enum { FORMAT_SIZED = 4 };
enum {
    ATTR_MAX_THREADS = 0x05, /* x, y, z of a block */
    ATTR_FRAME_SIZE = 0x11, /* symbol, bytes */
    ATTR_MIN_STACK = 0x12, /* symbol, bytes, with all called functions */
    ATTR_PARAM_SIZE = 0x19, /* 16 bits */
    ATTR_REGISTERS = 0x2f, /* symbol, count */
    ATTR_CLUSTER = 0x3d /* x, y, z */
};

typedef struct file {
    const char *bytes;
    size_t n_bytes;
    Elf64_Ehdr head;
    const char *names; /* of sections; the last byte is 0 */
    size_t n_names;
} file;

static md_status bad(const char *what)
{
    return md_fail(MD_CORRUPT, "a GPU binary is no whole cubin: %s", what);
}

static bool is_inside(const file *f, uint64_t offset, uint64_t size)
{
    return offset <= f->n_bytes && size <= f->n_bytes - offset;
}

static Elf64_Shdr section_at(const file *f, int32_t i)
{
    Elf64_Shdr s;
    memcpy(&s, f->bytes + f->head.e_shoff + (size_t)i * sizeof s, sizeof s);
    return s;
}

static const char *section_name(const file *f, const Elf64_Shdr *s)
{
    return s->sh_name < f->n_names ? f->names + s->sh_name : "";
}

static md_status open_file(file *f, const void *bytes, size_t n_bytes)
{
    *f = (file){.bytes = bytes, .n_bytes = n_bytes};
    if (!bytes || n_bytes < sizeof f->head)
        return bad("it is shorter than a header");
    memcpy(&f->head, bytes, sizeof f->head);
    const Elf64_Ehdr *h = &f->head;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != CUDA_MACHINE)
        return bad("not an ELF file for GPUs");
    if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum ||
        !is_inside(f, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr)))
        return bad("its table of sections lies outside");
    for (int32_t i = 0; i < h->e_shnum; i++) {
        Elf64_Shdr s = section_at(f, i);
        if (s.sh_type != SHT_NOBITS && s.sh_type != SHT_NULL && !is_inside(f, s.sh_offset, s.sh_size))
            return bad("a section lies outside");
    }
    if (h->e_phnum > 0 &&
        (h->e_phentsize != sizeof(Elf64_Phdr) || !is_inside(f, h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr))))
        return bad("its table of segments lies outside");
    Elf64_Shdr names = section_at(f, h->e_shstrndx);
    f->names = f->bytes + names.sh_offset;
    f->n_names = names.sh_size;
    if (names.sh_type == SHT_NOBITS || f->n_names == 0 || f->names[f->n_names - 1] != 0)
        return bad("its names do not end");
    return MD_OK;
}

/* Index of the section named prefix + name (name NULL: any that starts with the prefix); -1 if there is none. */
static int32_t find_section(const file *f, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);
    for (int32_t i = 1; i < f->head.e_shnum; i++) {
        Elf64_Shdr s = section_at(f, i);
        const char *other = section_name(f, &s);
        if (strncmp(other, prefix, n) == 0 && (!name || strcmp(other + n, name) == 0))
            return i;
    }
    return -1;
}

static uint32_t word_at(const char *p)
{
    uint32_t w = 0;
    memcpy(&w, p, sizeof w);
    return w;
}

/* Index of the symbol of the kernel's code, to which records of .nv.info refer; -1 if there is none. */
static int64_t find_symbol(const file *f, int32_t text, const char *kernel)
{
    for (int32_t i = 1; i < f->head.e_shnum; i++) {
        Elf64_Shdr s = section_at(f, i);
        if (s.sh_type != SHT_SYMTAB || s.sh_link >= f->head.e_shnum)
            continue;
        Elf64_Shdr strings = section_at(f, (int32_t)s.sh_link);
        const char *names = f->bytes + strings.sh_offset;
        if (strings.sh_type != SHT_STRTAB || strings.sh_size == 0 || names[strings.sh_size - 1] != 0)
            return -1;
        for (uint64_t k = 0; k < s.sh_size / sizeof(Elf64_Sym); k++) {
            Elf64_Sym symbol;
            memcpy(&symbol, f->bytes + s.sh_offset + k * sizeof symbol, sizeof symbol);
            if (symbol.st_shndx == text && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
                symbol.st_name < strings.sh_size && strcmp(names + symbol.st_name, kernel) == 0)
                return (int64_t)k;
        }
    }
    return -1;
}

/* Reads one record. Records of functions other than `symbol` are skipped. */
static void take(md_dev_cubin *out, uint8_t attribute, const char *value, size_t n, int64_t symbol)
{
    if ((attribute == ATTR_REGISTERS || attribute == ATTR_FRAME_SIZE || attribute == ATTR_MIN_STACK) && n >= 8) {
        int32_t number = (int32_t)word_at(value + 4);
        if ((int64_t)word_at(value) != symbol)
            return;
        if (attribute == ATTR_REGISTERS)
            out->registers = number;
        else
            out->frame_bytes = MD_MAX(out->frame_bytes, number);
    } else if ((attribute == ATTR_MAX_THREADS || attribute == ATTR_CLUSTER) && n >= 12) {
        int64_t product = (int64_t)word_at(value) * word_at(value + 4) * word_at(value + 8);
        int32_t number = product <= INT32_MAX ? (int32_t)product : INT32_MAX;
        if (attribute == ATTR_CLUSTER)
            out->cluster = number;
        else
            out->max_threads = number;
    }
}

static md_status read_info(md_dev_cubin *out, const file *f, int32_t section, int64_t symbol)
{
    if (section < 0)
        return MD_OK;
    Elf64_Shdr s = section_at(f, section);
    const char *p = f->bytes + s.sh_offset, *end = s.sh_type == SHT_NOBITS ? p : p + s.sh_size;
    while (end - p >= 4) {
        uint8_t format = (uint8_t)p[0], attribute = (uint8_t)p[1];
        uint16_t small = 0;
        memcpy(&small, p + 2, sizeof small);
        p += 4;
        if (format != FORMAT_SIZED) {
            if (attribute == ATTR_PARAM_SIZE)
                out->param_bytes = small;
            continue;
        }
        if (end - p < small)
            return bad("a record of .nv.info is cut off");
        take(out, attribute, p, small, symbol);
        p += small;
    }
    return MD_OK;
}

static int64_t static_shared(const file *f, const char *kernel)
{
    int32_t i = find_section(f, ".nv.shared.", kernel);
    if (i < 0)
        return 0;
    int64_t n = (int64_t)section_at(f, i).sh_size;
    return find_section(f, ".nv.shared.reserved.", NULL) >= 0 ? MD_MAX(n - RESERVED_SHARED, 0) : n;
}

md_status md_dev_cubin_read(md_dev_cubin *out, const void *bytes, size_t n_bytes, const char *kernel)
{
    static const char text[] = ".text.";
    file f;
    MD_TRY(open_file(&f, bytes, n_bytes));
    int32_t code = find_section(&f, text, kernel);
    if (code < 0)
        return md_fail(MD_NOT_FOUND, "the GPU binary has no kernel '%.159s'", kernel ? kernel : "");
    Elf64_Shdr s = section_at(&f, code);
    const char *name = section_name(&f, &s) + strlen(text);
    md_dev_cubin facts = {.code_bytes = (int64_t)s.sh_size};
    snprintf(facts.kernel, sizeof facts.kernel, "%s", name);
    bool is_named = f.head.e_ident[EI_ABIVERSION] >= NAMED_ABI;
    facts.capability = (int32_t)(f.head.e_flags >> (is_named ? 8 : 0) & 0xff);
    int64_t symbol = find_symbol(&f, code, name);
    if (symbol < 0)
        return md_fail(MD_NOT_FOUND, "the GPU binary has no symbol for kernel '%.159s'", name);
    MD_TRY(read_info(&facts, &f, find_section(&f, ".nv.info", ""), symbol));
    MD_TRY(read_info(&facts, &f, find_section(&f, ".nv.info.", name), symbol));
    facts.shared_bytes = static_shared(&f, name);
    *out = facts;
    return MD_OK;
}
