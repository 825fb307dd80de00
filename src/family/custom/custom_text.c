/* Prints the text around a user's source: our types and the parameters before it, the entry point after it. Line
 * numbers in errors are those of the source. */
#include "base/dtype.h"
#include "base/status.h"
#include "codegen/codegen.h"
#include "family/custom/custom.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 160, NAME = 96 };

typedef struct names {
    int32_t n;
    char name[MAX_NAMES][NAME];
} names;

/* Replaces characters that no identifier has by '_': "E.0", "Y.1". */
static const char *to_identifier(char out[NAME], const char *name)
{
    snprintf(out, NAME, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
    return out;
}

static md_status note(names *all, const md_fa_custom *c, const char *name)
{
    if (all->n == MAX_NAMES)
        return md_fail(MD_UNSUPPORTED, "custom kernel '%s': more than %d parameters", c->name, (int)MAX_NAMES);
    const char *to = to_identifier(all->name[all->n], name);
    for (int32_t i = 0; i < all->n; i++)
        if (!strcmp(all->name[i], to))
            return md_fail(
                MD_INVALID_ARGUMENT,
                "custom kernel '%s': two parameters would be named '%s': rename a tensor, a dim, a scalar or a tunable",
                c->name, to);
    all->n++;
    return MD_OK;
}

md_status md_fa_custom_check_names(const md_fa_custom *custom, const md_st_program *program)
{
    const md_fx_formula *f = program->formula;
    names all = {0};
    char text[NAME];
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (md_dtype_is_packed(f->tensor[t].dtype))
            return md_fail(MD_UNSUPPORTED, "custom kernel '%s': '%s' is packed (%s)", custom->name, f->tensor[t].name,
                           md_dtype_name(f->tensor[t].dtype));
        MD_TRY(note(&all, custom, f->tensor[t].name));
        snprintf(text, sizeof text, "%.64s_stride", f->tensor[t].name);
        MD_TRY(note(&all, custom, text));
    }
    for (int32_t d = 0; d < f->n_dims; d++)
        MD_TRY(note(&all, custom, f->dim[d].name));
    for (int32_t s = 0; s < f->n_scalars; s++)
        if (!f->scalar[s].is_size) /* a size that is an argument has its dim's name, which is checked already */
            MD_TRY(note(&all, custom, f->scalar[s].name));
    for (int32_t i = 0; i < custom->family.n_fields; i++) /* tunables become macros */
        MD_TRY(note(&all, custom, custom->family.field[i].name));
    return MD_OK;
}

static md_kn_param *next(md_kn_launch_source *launch)
{
    return &launch->param[launch->n_params++];
}

/* The struct, and the list that it is packed from. */
static md_status print_params(md_strbuf *out, md_kn_launch_source *launch, const md_st_program *program,
                              const md_st_stage *st)
{
    const md_fx_formula *f = program->formula;
    char name[NAME];
    int32_t n_words = st->n_tensors * (1 + MD_MAX_RANK) + f->n_dims + f->n_scalars;
    if (n_words > MD_KN_MAX_PARAMS - 8)
        return md_fail(MD_UNSUPPORTED, "the formula has more tensors and sizes than a kernel takes parameters");
    md_strbuf_add(out, "typedef struct md_params {\n");
    for (int32_t i = 0; i < st->n_tensors; i++) {
        const md_fx_tensor *t = &f->tensor[st->tensor[i]];
        md_strbuf_printf(out, "%s%s *%s;\n", st->is_stored[i] ? "" : "const ", md_dtype_c_type(t->dtype),
                         to_identifier(name, t->name));
        *next(launch) = (md_kn_param){.kind = MD_KN_POINTER, .a = (uint8_t)st->tensor[i]};
    }
    for (int32_t i = 0; i < st->n_tensors; i++) {
        const md_fx_tensor *t = &f->tensor[st->tensor[i]];
        if (t->rank > 0)
            md_strbuf_printf(out, "int64_t %s_stride[%" PRId32 "];\n", to_identifier(name, t->name), t->rank);
        for (int32_t a = 0; a < t->rank; a++)
            *next(launch) = (md_kn_param){.kind = MD_KN_STRIDE, .a = (uint8_t)st->tensor[i], .b = (uint8_t)a};
    }
    for (int32_t d = 0; d < f->n_dims; d++) {
        md_strbuf_printf(out, "int64_t %s;\n", to_identifier(name, f->dim[d].name));
        *next(launch) = (md_kn_param){.kind = MD_KN_SIZE, .a = (uint8_t)d};
    }
    for (int32_t s = 0; s < f->n_scalars; s++) {
        if (f->scalar[s].is_size)
            continue;
        bool is_real = f->scalar[s].type != MD_I64;
        md_strbuf_printf(out, "%s %s;\n", is_real ? "double" : "int64_t", to_identifier(name, f->scalar[s].name));
        *next(launch) = (md_kn_param){.kind = MD_KN_SCALAR, .a = (uint8_t)s, .is_real = is_real};
    }
    md_strbuf_add(out, "} md_params;\n");
    return MD_OK;
}

/* The number of threads of a block if it depends on tunables alone, for __launch_bounds__; otherwise 0. */
static int64_t fixed_threads(const md_fa_custom *c, const md_fa_config *config)
{
    int64_t all = 1, input[MD_FX_MAX_DIMS + MD_FA_MAX_FIELDS];
    md_fa_custom_inputs(input, c, NULL, config->value);
    for (int32_t i = 0; i < c->n_block; i++) {
        int64_t v = 0;
        if (md_fx_whole_reads(c->block[i], c->n_dims) || !md_fx_whole_eval(&v, c->block[i], input))
            return 0;
        all *= v;
    }
    return all >= 1 && all <= 1024 ? all : 0;
}

static void print_entry(md_strbuf *out, const md_fa_custom *c, const md_fa_config *config, bool is_cuda)
{
    int64_t threads = fixed_threads(c, config);
    md_strbuf_add(out, "\n#line 1 \"entry\"\n");
    if (!is_cuda) {
        md_strbuf_printf(out,
                         "MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)\n{\n"
                         "for (int64_t block = first; block < last; block++)\n%s(p, block, scratch);\n}\n",
                         c->entry);
        return;
    }
    md_strbuf_add(out, "MD_EXPORT void ");
    if (threads > 0)
        md_strbuf_printf(out, "__launch_bounds__(%" PRId64 ") ", threads);
    md_strbuf_printf(out, "md_kernel(const __grid_constant__ md_params p)\n{\nMD_IF_EMPTY_RETURN;\n%s(p);\n}\n",
                     c->entry);
}

md_status md_fa_custom_emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_custom *c = md_fa_custom_of(target, config);
    const md_st_stage *st = md_fa_stage(target);
    bool is_cuda = target->facts->kind == MD_DEV_CUDA;
    md_strbuf defines = {0}, expr = {0};
    *out = (md_kn_source){.n_launches = 1};
    md_kn_launch_source *launch = &out->launch[0];
    launch->code = MD_KN_TEXT;
    strcpy(launch->entry, "md_kernel");
    if (is_cuda)
        md_strbuf_add(&defines, "#define MD_ALLOW_STACK 1\n"); /* the user decides */
    md_status status = print_params(&expr, launch, target->program, st);
    for (int32_t i = 0; i < c->family.n_fields; i++) /* after the prelude, so that they rename nothing in it */
        md_strbuf_printf(&expr, "#define %s %" PRId32 "\n", c->family.field[i].name, config->value[i]);
    if (status == MD_OK)
        status = md_cg_assemble(&launch->text, target->facts->kind, is_cuda ? "cuda/custom.cu" : "host/custom.c",
                                md_strbuf_text(&defines), md_strbuf_text(&expr));
    md_strbuf_printf(&launch->text, "#line 1 \"%s\"\n", c->name);
    md_strbuf_add(&launch->text, c->source);
    print_entry(&launch->text, c, config, is_cuda);
    if (status == MD_OK && (defines.failed || expr.failed || launch->text.failed))
        status = md_fail_memory();
    md_strbuf_finish(&defines);
    md_strbuf_finish(&expr);
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
