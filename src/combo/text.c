/* Prints the kernel of many items. A body is the text of an ordinary kernel in a namespace: its entry becomes a
 * function whose block index and grid are arguments. */
#include "combo/text.h"

#include "base/status.h"
#include "family/kernel_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts of bodies */

enum { WORDS = 3 };

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* The first place of an identifier in [from, end); NULL: none. */
static const char *find_word(const char *from, const char *end, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = from; (at = strstr(at, word)) != NULL && at + n <= end; at += n)
        if ((at == from || !is_word(at[-1])) && !is_word(at[n]))
            return at;
    return NULL;
}

/* Copies a text with some identifiers replaced. */
static void add_replaced(md_strbuf *out, const char *from, const char *end, const char *const word[WORDS][2])
{
    while (from < end) {
        const char *next = end;
        int which = 0;
        for (int i = 0; i < WORDS; i++) {
            const char *at = find_word(from, end, word[i][0]);
            if (at && at < next) {
                next = at;
                which = i;
            }
        }
        md_strbuf_bytes(out, from, (size_t)(next - from));
        if (next < end) {
            md_strbuf_add(out, word[which][1]);
            next += strlen(word[which][0]);
        }
        from = next;
    }
}

/* The parts of a kernel's text: [text, entry) helpers, the arguments of __launch_bounds__, the name of the parameter,
 * and the body from `open` on. */
typedef struct pieces {
    const char *entry, *bounds, *bounds_end, *name, *open, *end;
    int name_length;
} pieces;

static bool take_apart(pieces *p, const char *text, size_t n)
{
    static const char exported[] = "MD_EXPORT void", plain[] = "extern \"C\" __global__ void",
                      bounds[] = "__launch_bounds__(";
    static const char name[] = "md_params ";
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, "md_kernel(")) != NULL; at++)
        last = at;
    if (!last)
        return false;
    p->end = text + n;
    p->entry = NULL;
    for (const char *at = last; at > text && last - at < 200 && !p->entry; at--)
        if (!strncmp(at, exported, sizeof exported - 1) || !strncmp(at, plain, sizeof plain - 1))
            p->entry = at;
    p->bounds = p->entry ? strstr(p->entry, bounds) : NULL;
    p->open = strstr(last, "\n{");
    p->name = strstr(last, name);
    if (!p->bounds || p->bounds > last || !p->open || !p->name || p->name > p->open)
        return false;
    p->bounds += sizeof bounds - 1;
    for (p->bounds_end = last; p->bounds_end > p->bounds && *p->bounds_end != ')';)
        p->bounds_end--;
    p->name += sizeof name - 1;
    p->name_length = (int)strcspn(p->name, ",) \n");
    return true;
}

/* #undef of all that a text defines. */
static void add_undefs(md_strbuf *out, const char *text)
{
    static const char define[] = "#define ";
    for (const char *at = text; (at = strstr(at, define)) != NULL;) {
        const bool is_first = at == text || at[-1] == '\n';
        at += sizeof define - 1;
        const char *end = at;
        while (is_word(*end))
            end++;
        if (is_first)
            md_strbuf_printf(out, "#undef %.*s\n", (int)(end - at), at);
    }
}

/* ---- Parameters */

static void name_param(char out[32], const md_kn_param *param)
{
    static const char *const name[] = {
        [MD_KN_POINTER] = "t",    [MD_KN_STRIDE] = "s",          [MD_KN_EXTENT] = "e",      [MD_KN_SIZE] = "n",
        [MD_KN_SCALAR] = "c",     [MD_KN_WORKSPACE] = "work",    [MD_KN_REPORT] = "report", [MD_KN_BLOCKS] = "blocks",
        [MD_KN_STAGE] = "call",   [MD_KN_COUNTERS] = "counters", [MD_KN_MAP] = "map",       [MD_KN_PAD] = "pad",
        [MD_KN_PACKED] = "packed"};
    static const int n_numbers[] = {
        [MD_KN_POINTER] = 1,   [MD_KN_STRIDE] = 2,   [MD_KN_EXTENT] = 2, [MD_KN_SIZE] = 1, [MD_KN_SCALAR] = 1,
        [MD_KN_WORKSPACE] = 1, [MD_KN_COUNTERS] = 1, [MD_KN_MAP] = 1,    [MD_KN_PAD] = 1,  [MD_KN_PACKED] = 0};
    if (n_numbers[param->kind] == 2)
        snprintf(out, 32, "%s%d_%d", name[param->kind], param->a, param->b);
    else if (n_numbers[param->kind] == 1)
        snprintf(out, 32, "%s%d", name[param->kind], param->a);
    else
        snprintf(out, 32, "%s", name[param->kind]);
}

/* A parameter that the text does not mention behind the struct needs no word. */
static void sort_params(md_cb_body *body, const char *text, size_t n)
{
    const md_bd_variant *v = body->variant;
    const char *from = strstr(text, "} md_params;"), *end = text + n;
    char name[32];
    body->n_own = body->n_shared = 0;
    for (int32_t i = 0; i < v->n_params[body->launch]; i++) {
        const md_kn_param *param = &v->param[body->launch][i];
        name_param(name, param);
        if (!from || !find_word(from, end, name))
            continue;
        if (param->kind == MD_KN_REPORT || (param->kind == MD_KN_SCALAR && body->shares_scalars))
            body->shared[body->n_shared++] = (int16_t)i;
        else
            body->own[body->n_own++] = (int16_t)i;
    }
}

/* Sizes of tiny items are known to be small, which removes the path for whole blocks. */
static void add_sets(md_strbuf *out, const md_cb_kernel *k, int32_t number, const char *from)
{
    const md_cb_body *body = &k->body[number];
    const bool is_own = from[0] == '(';
    char name[32];
    for (int32_t i = 0; i < (is_own ? body->n_own : body->n_shared); i++) {
        const md_kn_param *param = &body->variant->param[body->launch][is_own ? body->own[i] : body->shared[i]];
        name_param(name, param);
        if (k->by_warps && param->kind == MD_KN_SIZE)
            md_strbuf_printf(out, "    md_combo_set(p.%s, %s[%d] & %d);\n", name, from, (int)i, MD_CB_WARP_SIZES - 1);
        else
            md_strbuf_printf(out, "    md_combo_set(p.%s, %s[%d]);\n", name, from, (int)i);
    }
}

/* ---- Bodies */

static const char *const in_helpers[WORDS][2] = {
    {"gridDim", "md_grid_there"}, {"blockIdx", "md_block_there"}, {"threadIdx", "threadIdx"}};
static const char *const in_entry[WORDS][2] = {
    {"gridDim", "md_grid"}, {"blockIdx", "md_block"}, {"threadIdx", "threadIdx"}};
static const char *const in_warp[WORDS][2] = {
    {"gridDim", "md_grid"}, {"blockIdx", "md_block"}, {"threadIdx", "md_thread"}};

/* What helpers read of the grid. Each thread reads what itself has written: all write the same. */
static void add_there(md_strbuf *out, const md_cb_kernel *k)
{
    md_strbuf_add(out, k->by_warps ? "constexpr md_combo_at md_grid_there = {1, 1, 1}, md_block_there = {0, 0, 0};\n"
                                   : "__shared__ md_combo_at md_grid_there, md_block_there;\n");
}

/* A block of the item. */
static void add_block(md_strbuf *out, bool needs_there)
{
    md_strbuf_printf(out,
                     "    const md_combo_at grid = {(unsigned)item[0], (unsigned)(item[0] >> 32), 1};\n"
                     "    const unsigned row = grid.y == 1 ? 0 : block / grid.x;\n"
                     "    const md_combo_at at = {block - row * grid.x, row, 0};\n%s"
                     "    md_body(p, at, grid);\n}\n}\n",
                     needs_there ? "    md_grid_there = grid;\n    md_block_there = at;\n" : "");
}

/* A warp does what the threads of the item's only block would do, as far as they have a vector. In each row vectors are
 * one more than whole and ragged ones where tensors are unaligned. */
static void add_warp(md_strbuf *out)
{
    md_strbuf_add(out, "    const md_combo_at grid = {1, 1, 1}, at = {0, 0, 0};\n"
                       "    const unsigned points = (unsigned)item[0] & 0xffffff, rows = (unsigned)(item[0] >> 24) & "
                       "0xffffff;\n"
                       "    const unsigned vectors = (points + rows * (MD_VL - 1)) / MD_VL + rows;\n"
                       "#pragma unroll 1\n"
                       "    for (unsigned i = threadIdx.x & 31; i < vectors && i < MD_THREADS; i += 32) {\n"
                       "        const md_combo_at thread = {i, 0, 0};\n"
                       "        md_body(p, at, grid, thread);\n    }\n}\n}\n");
}

static void add_body(md_strbuf *out, const md_cb_kernel *k, int32_t number, const char *text, const pieces *p)
{
    const md_cb_body *body = &k->body[number];
    const bool needs_there = find_word(text, p->entry, "gridDim") || find_word(text, p->entry, "blockIdx");
    md_strbuf_printf(out, "namespace md_body%d {\n", (int)number);
    if (needs_there)
        add_there(out, k);
    add_replaced(out, text, p->entry, in_helpers);
    md_strbuf_printf(
        out,
        "static __device__ __forceinline__ void md_body(const md_params &%.*s, const md_combo_at md_block, "
        "const md_combo_at md_grid%s)",
        p->name_length, p->name, k->by_warps ? ", const md_combo_at md_thread" : "");
    add_replaced(out, p->open, p->end, k->by_warps ? in_warp : in_entry);
    md_strbuf_add(out,
                  "\nstatic __device__ __forceinline__ void md_enter(const unsigned long long *shared, const unsigned "
                  "long long *item, unsigned block)\n{\n    md_params p = {};\n");
    if (body->threads < k->threads && !k->by_warps)
        md_strbuf_printf(out, "    if (threadIdx.x >= %d)\n        return;\n", (int)body->threads);
    add_sets(out, k, number, "(item + 1)");
    add_sets(out, k, number, "shared");
    if (k->by_warps)
        add_warp(out);
    else
        add_block(out, needs_there);
}

/* True unless threads of a block work together, which a warp cannot do for a whole block. */
static bool suits_warps(const pieces *p, const char *text)
{
    static const char *const together[] = {"__shared__",      "__syncthreads",  "__syncwarp",       "__shfl_sync",
                                           "__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync", "__ballot_sync",
                                           "md_lane_id",      "md_warp_id"};
    const char *from = strstr(text, "} md_params;");
    if (!from || from > p->entry || find_word(from, p->entry, "threadIdx"))
        return false;
    for (int32_t i = 0; i < MD_COUNT(together); i++)
        if (find_word(from, p->end, together[i]))
            return false;
    return true;
}

/* ---- The entry */

int32_t md_cb_text_head(const md_cb_kernel *kernel)
{
    return kernel->is_far ? 3 : 1;
}

int32_t md_cb_text_stride(const md_cb_kernel *kernel)
{
    int32_t most = 0;
    for (int32_t i = 0; i < kernel->n; i++)
        most = MD_MAX(most, kernel->body[i].n_own);
    return 1 + most;
}

/* Kernels of one item know that pointers in their parameters are global; here it is said. */
static void add_start(md_strbuf *out, const md_cb_kernel *k)
{
    md_strbuf_printf(
        out,
        "struct md_combo_at { unsigned x, y, z; };\n"
        "struct md_combo_table { unsigned long long word[%d]; };\n"
        "template <class T> static __device__ __forceinline__ void md_combo_set(T *&to, unsigned long long w)\n"
        "{\n    to = (T *)w;\n    __builtin_assume(__isGlobal((const void *)to));\n}\n"
        "static __device__ __forceinline__ void md_combo_set(long long &to, unsigned long long w) { to = (long long)w; "
        "}\n"
        "static __device__ __forceinline__ void md_combo_set(double &to, unsigned long long w)\n"
        "{\n    to = __longlong_as_double((long long)w);\n}\n",
        (int)k->table_words);
}

static void add_switch(md_strbuf *out, const md_cb_kernel *k)
{
    int32_t shared = md_cb_text_head(k);
    md_strbuf_add(out, "    switch (body) {\n");
    for (int32_t i = 0; i < k->n; i++) {
        md_strbuf_printf(out, i + 1 < k->n ? "    case %d:" : "    default:", (int)i);
        md_strbuf_printf(out, " md_body%d::md_enter(table.word + %d, item, block); break;\n", (int)i, (int)shared);
        shared += k->body[i].n_shared;
    }
    md_strbuf_add(out, "    }\n}\n");
}

/* The item of this block: a binary search, in a far table only among those that begin near it. */
static void add_search(md_strbuf *out, bool is_far)
{
    md_strbuf_add(out, "    const unsigned n = (unsigned)table.word[0];\n");
    md_strbuf_add(out, is_far
                           ? "    const unsigned *start = (const unsigned *)words, *first = start + "
                             "(((unsigned)(table.word[2] >> 32) + 1) & ~1u);\n"
                             "    const unsigned near = blockIdx.x >> (unsigned)table.word[2];\n"
                             "    unsigned low = start[near], left = start[near + 1] - low + 1;\n"
                           : "    const unsigned *first = (const unsigned *)rest;\n    unsigned low = 0, left = n;\n");
    md_strbuf_add(out, "#pragma unroll 1\n    while (left > 1) {\n        const unsigned half = left >> 1;\n"
                       "        low = first[low + half] <= blockIdx.x ? low + half : low;\n        left -= half;\n    "
                       "}\n"
                       "    const unsigned ref = first[n + low], block = blockIdx.x - first[low], body = ref >> 29;\n"
                       "    const unsigned long long *item = words + (ref & 0x1fffffff);\n");
}

static void add_warp_item(md_strbuf *out, const md_cb_kernel *k)
{
    md_strbuf_printf(out,
                     "    const unsigned number = blockIdx.x * %d + threadIdx.x / 32, block = 0;\n"
                     "    if (number >= (unsigned)table.word[0])\n        return;\n"
                     "    const unsigned long long *item = rest + number * %du;\n"
                     "    const unsigned body = (unsigned)(item[0] >> 61);\n",
                     MD_CB_WARP_THREADS / 32, (int)md_cb_text_stride(k));
}

/* `words`: what references count from. `rest`: what is behind the head. */
static void add_find(md_strbuf *out, const md_cb_kernel *k)
{
    int32_t head = md_cb_text_head(k);
    for (int32_t i = 0; i < k->n; i++)
        head += k->body[i].n_shared;
    if (k->is_far)
        md_strbuf_add(out, "    const unsigned long long *words = (const unsigned long long *)table.word[1], *rest = "
                           "words;\n");
    else
        md_strbuf_printf(out, "    const unsigned long long *words = table.word, *rest = words + %d;\n", (int)head);
    if (k->by_warps)
        add_warp_item(out, k);
    else
        add_search(out, k->is_far);
}

static void add_entry(md_strbuf *out, const md_cb_kernel *k, const pieces *p, const char *name)
{
    if (k->n == 1 && k->body[0].threads == k->threads && !k->by_warps && !k->min_blocks)
        md_strbuf_printf(out, "extern \"C\" __global__ void __launch_bounds__(%.*s)", (int)(p->bounds_end - p->bounds),
                         p->bounds);
    else
        md_strbuf_printf(out, "extern \"C\" __global__ void __launch_bounds__(%d, %d)", (int)k->threads,
                         (int)MD_MAX(k->min_blocks, 1));
    md_strbuf_printf(out,
                     " %s(const __grid_constant__ md_combo_table table)\n{\n    if (blockDim.x == 1)\n        return;\n"
                     "    md_body0::md_wait_for_launches();\n",
                     name);
    add_find(out, k);
    add_switch(out, k);
}

/* ---- The whole */

static md_status add_kernel(md_strbuf *out, md_cb_kernel *k, int32_t i, md_kn_source *source, const char *name)
{
    md_cb_body *body = &k->body[i];
    const md_bd_variant *v = body->variant;
    pieces p;
    MD_TRY(md_fa_emit(source, v->family, &v->target, &v->config));
    const md_kn_launch_source *launch = &source->launch[body->launch];
    const char *text = md_strbuf_text(&launch->text);
    if (launch->code != MD_KN_TEXT || strcmp(launch->entry, "md_kernel") != 0 ||
        !take_apart(&p, text, launch->text.size))
        return md_fail(MD_UNSUPPORTED, "kernel '%s' has no form that many items can share", v->name);
    if (k->by_warps && !suits_warps(&p, text))
        return md_fail(MD_UNSUPPORTED, "threads of kernel '%s' work together", v->name);
    sort_params(body, text, launch->text.size);
    add_body(out, k, i, text, &p);
    if (i + 1 == k->n)
        add_entry(out, k, &p, name);
    add_undefs(out, text);
    return out->failed ? md_fail_memory() : MD_OK;
}

md_status md_cb_text_print(md_kn_launch_source *out, md_cb_kernel *kernel)
{
    char words[MD_KN_ENTRY];
    md_status status = MD_OK;
    memset(out, 0, sizeof *out);
    out->code = MD_KN_TEXT;
    md_fa_stage_words(words, &kernel->body[0].variant->target);
    snprintf(out->entry, sizeof out->entry, "md_combo%d_%.100s", (int)kernel->n, words);
    snprintf(out->origin, sizeof out->origin, "combo %.100s", words);
    snprintf(out->label, sizeof out->label, "combo");
    add_start(&out->text, kernel);
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    for (int32_t i = 0; i < kernel->n && status == MD_OK; i++) {
        status = add_kernel(&out->text, kernel, i, source, out->entry);
        md_kn_source_finish(source);
        memset(source, 0, sizeof *source);
    }
    free(source);
    if (status != MD_OK)
        md_strbuf_finish(&out->text);
    return status;
}
