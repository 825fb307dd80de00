/* The text of what a chain does with a row's sums: closing them, and the stores. */
#include "codegen/chain/chain.h"

#include "codegen/product/product.h"
#include "expr/node.h"

#include <stdio.h>

static const md_st_stage *stage_of(const md_cg_chain *c)
{
    return &c->program->stage[c->stage];
}

static void print_state(md_strbuf *out, const md_cg_chain *c)
{
    md_strbuf_printf(out,
                     "typedef struct md_chain_state {\nfloat maximum, sum[%d];\n} md_chain_state;\n"
                     "MD_INLINE md_chain_state md_chain_start(void)\n{\nmd_chain_state s = {0};\ns.maximum = "
                     "-__builtin_inff();\nreturn s;\n}\n",
                     c->c->n_terms > 0 ? (int)c->c->n_terms : 1);
}

static void bind_state(md_cg *cg, const md_cg_chain *c)
{
    static const char *const sum[MD_ST_MAX_TERMS] = {"s->sum[0]", "s->sum[1]", "s->sum[2]", "s->sum[3]"};
    if (c->c->has_maximum)
        md_cg_bind_ref(cg, MD_ST_REF_MAXIMUM, MD_F32, "s->maximum", true);
    for (int32_t i = 0; i < c->c->n_terms; i++)
        md_cg_bind_ref(cg, MD_ST_REF_TERM + i, MD_F32, sum[i], true);
}

/* exp(maximum - reference), exactly 1 where they are equal and finite, NaN where both are infinite. */
static void print_factor(md_strbuf *out, md_cg *cg, const md_cg_chain *c)
{
    const md_fx_node maximum = {.kind = MD_FX_REF, .type = MD_F32, .id = MD_ST_REF_MAXIMUM};
    const md_fx_node *two[2] = {md_cg_keep(cg, &maximum), c->c->reference}, *one[1] = {NULL};
    const char *reference = md_cg_value(cg, c->c->reference, NULL);
    if (!reference)
        return;
    one[0] = md_cg_keep(cg, &(md_fx_node){.kind = MD_FX_OP, .op = MD_FX_SUB, .type = MD_F32, .n_args = 2, .arg = two});
    const char *factor = md_cg_value(
        cg, md_cg_keep(cg, &(md_fx_node){.kind = MD_FX_OP, .op = MD_FX_EXP, .type = MD_F32, .n_args = 1, .arg = one}),
        NULL);
    if (factor)
        md_strbuf_printf(out,
                         "const float f = s->maximum == %s && s->maximum - %s == 0 ? 1.0f : %s;\n"
                         "if (md_chain_keys(p) == 0)\nreturn 1.0f;\n",
                         reference, reference, factor);
    for (int32_t i = 0; i < c->c->n_terms; i++)
        md_strbuf_printf(out, "s->sum[%d] *= f;\n", (int)i);
    md_strbuf_add(out, "return f;\n}\n");
}

static md_status print_close(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out,
                  "MD_INLINE float md_chain_close(const md_params *p, const md_chain_row *r, md_chain_state *s)\n{\n"
                  "(void)p, (void)r, (void)s;\n");
    if (c->c->has_maximum && c->c->reference) {
        md_cg_chain_print_row(out, c, "r");
        md_cg_begin(cg, out);
        bind_state(cg, c);
        print_factor(out, cg, c);
    } else {
        md_strbuf_add(out, "return 1.0f;\n}\n");
    }
    return md_cg_chain_end(defines, &cg);
}

/* ---- stores */

static md_status print_stores(md_strbuf *out, md_cg *cg, const md_cg_chain *c, bool per_row)
{
    const md_st_stage *stage = stage_of(c);
    const char *value[MD_ST_MAX_STORES];
    bool is_uniform[MD_ST_MAX_STORES];
    md_cg_begin(cg, out);
    bind_state(cg, c);
    if (!per_row)
        md_cg_bind_ref(cg, MD_ST_REF_VALUE, MD_F32, "o", false);
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (stage->store[i].per_row == per_row && !(value[i] = md_cg_value(cg, stage->store[i].value, &is_uniform[i])))
            return md_cg_status(cg);
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (stage->store[i].per_row == per_row)
            md_cg_store(cg, &stage->store[i], value[i], is_uniform[i]);
    return md_cg_status(cg);
}

static md_status print_store_row(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    const md_st_stage *stage = stage_of(c);
    int32_t n = 0;
    for (int32_t i = 0; i < stage->n_stores; i++)
        n += stage->store[i].per_row;
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(defines, "#define MD_CHAIN_ROW_STORES %d\n", (int)n);
    md_strbuf_add(out, "MD_INLINE void md_chain_store_row(const md_params *p, const md_chain_row *r, const "
                       "md_chain_state *s)\n{\n(void)p, (void)r, (void)s;\n");
    md_cg_chain_print_row(out, c, "r");
    md_status status = n > 0 ? print_stores(out, cg, c, true) : MD_OK;
    md_strbuf_add(out, "}\n");
    md_status end = md_cg_chain_end(defines, &cg);
    return status != MD_OK ? status : end;
}

static void print_store_head(md_strbuf *out, const md_cg_chain *c, const char *suffix)
{
    bool is_gpu = c->dialect == MD_DEV_CUDA;
    md_strbuf_printf(
        out,
        "%sMD_INLINE void md_chain_store%s(const md_params *p, const md_chain_row *r, const md_chain_state "
        "*s, int64_t column, md_f o, %s md_n)\n{\n(void)r, (void)s, (void)o;\n",
        is_gpu ? "MD_N_DECL " : "", suffix, is_gpu ? "md_n_t" : "int");
}

static int32_t last_column(const md_cg_chain *c)
{
    return c->c->columns[c->c->n_columns - 1];
}

static md_status print_store(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, md_cg_access access)
{
    md_cg *cg = md_cg_chain_printer(c, last_column(c), access);
    if (!cg)
        return md_fail_memory();
    print_store_head(out, c, access == MD_CG_UNIT ? "_unit" : "_strided");
    md_cg_chain_print_row(out, c, "r");
    md_cg_print_decode(out, c->program, c->c->n_columns, c->c->columns, "column");
    md_status status = print_stores(out, cg, c, false);
    md_strbuf_add(out, "}\n");
    md_status end = md_cg_chain_end(defines, &cg);
    return status != MD_OK ? status : end;
}

/* Prints the stores twice: for results, and what their values read, with unit stride; and for any other strides. */
static void print_store_choice(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_stage *stage = stage_of(c);
    print_store_head(out, c, "");
    md_strbuf_add(out, "if (1");
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *s = &stage->store[i];
        if (s->per_row)
            continue;
        md_strbuf_add(out, " && ");
        md_cg_product_print_unit_test(out, s->value, last_column(c));
        if (s->n_subscripts > 0 && md_fx_is_index(s->subscript[s->n_subscripts - 1], last_column(c)))
            md_strbuf_printf(out, " && p->s%d_%d == 1", (int)s->tensor, (int)s->n_subscripts - 1);
    }
    md_strbuf_add(out,
                  ")\nmd_chain_store_unit(p, r, s, column, o, md_n);\nelse\nmd_chain_store_strided(p, r, s, column, "
                  "o, md_n);\n}\n");
}

static void print_room(md_strbuf *out, const md_cg_chain *c)
{
    char size[32];
    md_strbuf_add(out, "MD_INLINE int64_t md_chain_room(const md_params *p, int64_t column)\n{\n(void)p, "
                       "(void)column;\nreturn ");
    if (c->c->n_columns == 1)
        md_strbuf_add(out, "INT64_MAX;\n}\n");
    else
        md_strbuf_printf(out, "%s - column %% %s;\n}\n", md_cg_size(size, c->program, last_column(c)), size);
}

/* ---- one 16-bit result on a GPU */

static const md_st_store *result_of(const md_cg_chain *c)
{
    const md_st_stage *stage = stage_of(c);
    const md_st_store *result = NULL;
    for (int32_t i = 0; i < stage->n_stores; i++)
        if (!stage->store[i].per_row) {
            if (result)
                return NULL;
            result = &stage->store[i];
        }
    const md_dtype dtype = result ? c->program->formula->tensor[result->tensor].dtype : MD_F32;
    bool is_result = result && (dtype == MD_BF16 || dtype == MD_F16) && result->value->type == MD_F32 &&
                     result->n_subscripts > 0 && c->c->n_columns == 1 &&
                     md_fx_is_index(result->subscript[result->n_subscripts - 1], c->c->columns[0]);
    for (int32_t i = 0; is_result && i < result->n_subscripts; i++)
        is_result = result->subscript[i]->kind == MD_FX_INDEX;
    return is_result ? result : NULL;
}

static md_status print_result(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const md_st_store *store)
{
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    const char *dtype = md_dtype_name(c->program->formula->tensor[store->tensor].dtype);
    if (!cg)
        return md_fail_memory();
    md_strbuf_add(out, "MD_INLINE float md_chain_result_of(const md_params *p, const md_chain_row *r, const "
                       "md_chain_state *s, int64_t column, float o)\n{\n(void)r, (void)s, (void)o;\n");
    md_cg_chain_print_row(out, c, "r");
    md_cg_print_decode(out, c->program, 1, c->c->columns, "column");
    md_cg_begin(cg, out);
    bind_state(cg, c);
    md_cg_bind_ref(cg, MD_ST_REF_VALUE, MD_F32, "o", true);
    md_cg_invert_sums(cg);
    const char *value = md_cg_value(cg, store->value, NULL);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
    md_strbuf_printf(
        out,
        "MD_INLINE unsigned md_chain_result(const md_params *p, const md_chain_row *r, const md_chain_state "
        "*s, int64_t column, float o0, float o1)\n{\nreturn md_pack_%s(md_chain_result_of(p, r, s, column, "
        "o0), md_chain_result_of(p, r, s, column + 1, o1));\n}\n",
        dtype);
    md_strbuf_add(out, "MD_INLINE uint16_t *md_chain_result_at(const md_params *p, const md_chain_row *r, int64_t "
                       "column)\n{\n");
    md_cg_chain_print_row(out, c, "r");
    md_strbuf_printf(out, "const int64_t x%d = column;\nreturn (uint16_t *)p->t%d", (int)c->c->columns[0],
                     (int)store->tensor);
    for (int32_t a = 0; a < store->n_subscripts; a++)
        md_strbuf_printf(out, " + x%d * p->s%d_%d", (int)store->subscript[a]->id, (int)store->tensor, (int)a);
    md_strbuf_add(out, ";\n}\n");
    return md_cg_chain_end(defines, &cg);
}

md_status md_cg_chain_print_results(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c)
{
    print_state(out, c);
    MD_TRY(print_close(defines, out, c));
    MD_TRY(print_store_row(defines, out, c));
    print_room(out, c);
    MD_TRY(print_store(defines, out, c, MD_CG_UNIT));
    MD_TRY(print_store(defines, out, c, MD_CG_STRIDED));
    print_store_choice(out, c);
    const md_st_store *result = c->dialect == MD_DEV_CUDA ? result_of(c) : NULL;
    md_strbuf_printf(defines, "#define MD_CHAIN_RESULT %d\n", result != NULL);
    return result ? print_result(defines, out, c, result) : MD_OK;
}
