/* Names kernels by their variant and by what they compute. */
#include "family/kernel_name.h"

#include "base/status.h"
#include "codegen/codegen.h"
#include "expr/node.h"
#include "expr/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WORDS = 4 };

typedef struct words {
    const char *word[MAX_WORDS];
    int32_t n;
    bool takes_signs; /* operators and conditions count too */
} words;

static void add_word(words *w, const char *word)
{
    for (int32_t i = 0; i < w->n; i++)
        if (!strcmp(w->word[i], word))
            return;
    if (w->n < MAX_WORDS)
        w->word[w->n++] = word;
}

static bool add_node(void *user, const md_fx_node *node)
{
    words *w = user;
    const bool is_binder = node->kind == MD_FX_REDUCE || node->kind == MD_FX_SCAN;
    const bool is_function = node->kind == MD_FX_OP && md_fx_op_is_function(node->op) && node->op != MD_FX_WHERE;
    if (is_binder || is_function || (w->takes_signs && node->kind == MD_FX_OP))
        add_word(w, md_fx_op_info(node->op)->name);
    return true;
}

static void add_value(words *w, const md_fx_node *value)
{
    (void)md_fx_visit(value, add_node, w);
}

/* Adds the names of values in the order in which they are computed. */
static void add_values(words *w, const md_st_stage *s)
{
    if (s->kind == MD_ST_PRODUCT)
        add_word(w, s->product.n_products == 2 ? "matmul2" : "matmul");
    if (s->kind == MD_ST_CHAIN)
        add_word(w, s->chain->pairs ? "pairs" : "chain");
    for (int32_t i = 0; i < s->row.n_reductions && s->kind == MD_ST_ROW; i++) {
        const md_st_reduction *r = &s->row.reduction[i];
        add_value(w, r->body);
        add_word(w, r->merge == MD_ST_MERGE_CHAN ? "var" : md_fx_op_info(r->op)->name);
    }
    if (s->kind == MD_ST_SCAN) {
        add_value(w, s->scan.body);
        add_word(w, md_fx_op_info(s->scan.op)->name);
    }
    for (int32_t i = 0; i < s->n_stores; i++)
        add_value(w, s->store[i].value);
}

static void add_moves(words *w, const md_st_stage *s)
{
    static const char *const update[] = {[MD_FX_SET] = "scatter",
                                         [MD_FX_ADD_TO] = "scatter_add",
                                         [MD_FX_MUL_TO] = "scatter_mul",
                                         [MD_FX_MAX_TO] = "scatter_max",
                                         [MD_FX_MIN_TO] = "scatter_min"};
    if (s->has_gather)
        add_word(w, "gather");
    if (s->has_scatter)
        add_word(w, update[s->store[0].assign]);
}

void md_fa_stage_words(char out[MD_KN_ENTRY], const md_fa_target *target)
{
    const md_st_stage *s = md_fa_stage(target);
    words w = {.n = 0};
    size_t used = 0;
    add_moves(&w, s);
    add_values(&w, s);
    if (w.n == 0) {
        w.takes_signs = true;
        add_values(&w, s);
    }
    if (w.n == 0)
        add_word(&w, "copy");
    for (int32_t i = 0; i < w.n && used < MD_KN_ENTRY; i++)
        used += (size_t)snprintf(out + used, MD_KN_ENTRY - used, "%s_", w.word[i]);
    if (used < MD_KN_ENTRY)
        snprintf(out + used, MD_KN_ENTRY - used, "%s",
                 md_dtype_name(target->program->formula->tensor[s->store[0].tensor].dtype));
}

/* The name as a C identifier. */
static void name_launch(char out[MD_KN_ENTRY], const char *variant, const char *stage, const md_kn_source *source,
                        int32_t launch)
{
    const char *role = source->launch[launch].role;
    char part[24] = "";
    if (!role && source->n_launches > 1)
        snprintf(part, sizeof part, "_launch%d", (int)launch + 1);
    snprintf(out, MD_KN_ENTRY, "md_%.95s%s_%.*s", role ? role : variant, part, MD_KN_ENTRY - 124, stage);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c))
            *c = '_';
}

/* The text defines `md_kernel`; a macro gives it the name. */
static md_status rename_entry(md_kn_launch_source *launch, const char *name)
{
    md_strbuf text = {0};
    md_strbuf_printf(&text, "#define %s %s\n", launch->entry, name);
    md_strbuf_bytes(&text, md_strbuf_text(&launch->text), launch->text.size);
    if (text.failed) {
        md_strbuf_finish(&text);
        return md_fail_memory();
    }
    md_strbuf_finish(&launch->text);
    launch->text = text;
    snprintf(launch->entry, sizeof launch->entry, "%s", name);
    return MD_OK;
}

md_status md_fa_emit_named(md_kn_source *out, const md_fa_target *target, const md_fa_family *family,
                           const md_fa_config *config)
{
    char variant[MD_FA_NAME], stage[MD_KN_ENTRY], name[MD_KN_ENTRY];
    memset(out, 0, sizeof *out);
    MD_TRY(md_fa_emit(out, family, target, config));
    md_fa_name(variant, family, config);
    md_fa_stage_words(stage, target);
    md_status status = MD_OK;
    for (int32_t i = 0; i < out->n_launches && status == MD_OK; i++) {
        if (out->launch[i].code != MD_KN_TEXT || strcmp(out->launch[i].entry, "md_kernel") != 0)
            continue;
        name_launch(name, variant, stage, out, i);
        status = rename_entry(&out->launch[i], name);
    }
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}
