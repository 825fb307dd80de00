/* The printer: where text goes, what is known, and what families ask of it. */
#include "codegen/expression/printer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

/* ---- Plumbing */

md_cg *md_cg_create(const md_cg_options *options)
{
    md_cg *cg = calloc(1, sizeof *cg);
    md_arena *arena = md_arena_create();
    if (!cg || !arena) {
        free(cg);
        md_arena_destroy(&arena);
        md_fail_memory();
        return NULL;
    }
    cg->o = *options;
    cg->program = options->program;
    cg->formula = options->program->formula;
    cg->stage = &options->program->stage[options->stage];
    cg->arena = arena;
    return cg;
}

void md_cg_destroy(md_cg **cg)
{
    if (!cg || !*cg)
        return;
    md_memo_finish(&(*cg)->numbers);
    md_arena_destroy(&(*cg)->arena);
    free((*cg)->value);
    free(*cg);
    *cg = NULL;
}

md_status md_cg_status(const md_cg *cg)
{
    return cg->status;
}

bool md_cg_is_cuda(const md_cg *cg)
{
    return cg->o.dialect == MD_DEV_CUDA;
}

void md_cg_error(md_cg *cg, md_status status)
{
    if (cg->status == MD_OK)
        cg->status = status;
}

void md_cg_begin(md_cg *cg, md_strbuf *body)
{
    cg->epoch++;
    cg->body = body;
    cg->prologue = NULL;
    cg->sink = NULL;
    cg->depth = 0;
    cg->scope[0] = (md_cg_scope){.id = 0, .hidden = -1};
    cg->texts = NULL;
    cg->mask = NULL;
    cg->pointers = 0;
}

void md_cg_hoist(md_cg *cg, md_strbuf *prologue)
{
    cg->prologue = prologue;
}

const char *md_cg_format(md_cg *cg, const char *format, ...)
{
    md_strbuf b = {0};
    va_list args;
    va_start(args, format);
    md_strbuf_vprintf(&b, format, args);
    va_end(args);
    const char *text = b.failed ? NULL : md_arena_text(cg->arena, md_strbuf_text(&b));
    md_strbuf_finish(&b);
    if (!text)
        md_cg_error(cg, md_fail_memory());
    return text;
}

bool md_cg_can_hoist(const md_cg *cg, bool is_uniform, bool is_guarded)
{
    return is_uniform && cg->depth == 0 && cg->prologue && !(cg->mask && is_guarded);
}

md_strbuf *md_cg_sink(md_cg *cg, bool is_hoisted)
{
    return is_hoisted ? cg->prologue : cg->sink ? cg->sink : cg->body;
}

md_cg_name md_cg_declare(md_cg *cg, const char *c_type, bool is_uniform, bool is_hoisted, const char *text)
{
    md_cg_name name = {NULL, is_uniform};
    if (!text)
        return name;
    name.text = md_cg_format(cg, "%c%" PRId32, is_uniform ? 'u' : 'v', cg->n_names++);
    if (name.text)
        md_strbuf_printf(md_cg_sink(cg, is_hoisted), "const %s %s = %s;\n", c_type, name.text, text);
    return name;
}

void md_cg_open(md_cg *cg, md_strbuf *sink, int32_t hidden)
{
    if (cg->depth + 1 >= MD_CG_MAX_SCOPES) {
        md_cg_error(cg, md_fail(MD_UNSUPPORTED, "expression nests more than %d blocks", MD_CG_MAX_SCOPES));
        return;
    }
    cg->scope[++cg->depth] = (md_cg_scope){.id = ++cg->n_scopes_made, .hidden = hidden};
    cg->sink = sink;
}

void md_cg_close(md_cg *cg)
{
    if (cg->depth > 0 && --cg->depth == 0)
        cg->sink = NULL;
}

const char *md_cg_suffix_in(const md_cg *cg, md_dtype type, bool is_uniform)
{
    return cg->o.bytes && !is_uniform ? md_cg_byte_suffix(type) : md_cg_suffix(type, is_uniform);
}

const char *md_cg_type_in(const md_cg *cg, md_dtype type, bool is_uniform)
{
    return is_uniform ? md_cg_scalar_type(type) : cg->o.bytes ? md_cg_byte_type(type) : md_cg_lane_type(type);
}

/* ---- For families */

const md_fx_node *md_cg_keep(md_cg *cg, const md_fx_node *node)
{
    md_fx_node *copy = md_arena_alloc(cg->arena, sizeof *copy);
    const md_fx_node **arg = md_arena_alloc(cg->arena, ((size_t)node->n_args + 1) * sizeof *arg);
    if (!copy || !arg) {
        md_cg_error(cg, md_fail_memory());
        return NULL;
    }
    for (int32_t i = 0; i < node->n_args; i++)
        arg[i] = node->arg[i];
    *copy = *node;
    copy->arg = arg;
    return copy;
}

/* `#define MD_<word>_<DTYPE> 1` */
static void print_dtype_use(md_strbuf *out, const char *word, md_dtype dtype)
{
    md_strbuf_printf(out, "#define MD_%s_", word);
    for (const char *c = md_dtype_name(dtype); *c; c++)
        md_strbuf_printf(out, "%c", *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    md_strbuf_add(out, " 1\n");
}

static void print_byte_uses(const md_cg *cg, md_strbuf *out)
{
    if (cg->o.bytes)
        md_strbuf_add(out, "#define MD_BYTES 1\n");
    if (md_cg_lanes_per_32_bits(cg->o.bytes) == 2)
        md_strbuf_add(out, "#define MD_WORDS 1\n");
    if (md_cg_lanes_per_32_bits(cg->o.bytes) == 8)
        md_strbuf_add(out, "#define MD_BYTE_HALVES 1\n");
    if (cg->o.bytes == MD_CG_UNSIGNED_BYTES || cg->o.bytes == MD_CG_UNSIGNED_WORDS ||
        cg->o.bytes == MD_CG_UNSIGNED_HALVES)
        md_strbuf_add(out, "#define MD_BYTES_UNSIGNED 1\n");
    if (md_cg_bits_dtype(cg->o.bytes) != MD_F32)
        print_dtype_use(out, "BITS", md_cg_bits_dtype(cg->o.bytes));
}

void md_cg_print_uses(const md_cg *cg, md_strbuf *out)
{
    for (int32_t op = 1; op < MD_FX_N_OPS; op++) {
        if (cg->used[op])
            md_strbuf_printf(out, "#define MD_USE_%s 1\n", md_fx_op_info((md_fx_op)op)->uses);
    }
    print_byte_uses(cg, out);
    if (!md_cg_is_cuda(cg) && !cg->o.bytes && md_cg_has_narrow_integers(cg->program, cg->o.stage))
        md_strbuf_add(out, "#define MD_NARROW 1\n");
    bool seen[32] = {false};
    for (int32_t i = 0; i < cg->stage->n_tensors; i++) {
        md_dtype t = cg->formula->tensor[cg->stage->tensor[i]].dtype;
        if (seen[t & 31])
            continue;
        seen[t & 31] = true;
        print_dtype_use(out, "USE", t);
    }
}
