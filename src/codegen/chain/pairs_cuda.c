/* The text of pairs on a GPU, whose operands are lines of one 16-bit type. */
#include "codegen/chain/pairs.h"

#include "base/arena.h"
#include "base/dtype.h"
#include "base/status.h"
#include "expr/node.h"

#include <stdio.h>

static const md_st_pairs *pairs_of(const md_cg_chain *c)
{
    return c->c->pairs;
}

static md_dtype type_of(const md_cg_chain *c, int32_t operand)
{
    return c->program->formula->tensor[pairs_of(c)->operand[operand].load->id].dtype;
}

static int32_t dim_of(const md_cg_chain *c, int32_t operand)
{
    return c->program->index[pairs_of(c)->operand[operand].inner].dim;
}

bool md_cg_pairs_is_deep(const md_cg_chain *c, int32_t operand)
{
    return dim_of(c, operand) == dim_of(c, pairs_of(c)->product[0].of_rows);
}

/* The weight without a rounding to the operands' type, which packing does. */
static const md_fx_node *unrounded(const md_cg_chain *c, const md_fx_node *weight)
{
    return weight->kind == MD_FX_CAST && weight->to == type_of(c, 0) ? weight->arg[0] : weight;
}

int32_t md_cg_pairs_halves(const md_cg_chain *c, int32_t sum)
{
    const md_fx_node *weight = pairs_of(c)->sum[sum].weight;
    return unrounded(c, weight) != weight ? 1 : 2;
}

typedef struct ref_search {
    int32_t id;
    bool found;
} ref_search;

static bool find_ref(void *user, const md_fx_node *n)
{
    ref_search *s = user;
    s->found |= n->kind == MD_FX_REF && n->id == s->id;
    return !s->found;
}

bool md_cg_pairs_uses(const md_cg_chain *c, int32_t sum, int32_t product)
{
    ref_search s = {.id = product == 0 ? MD_ST_REF_X : MD_ST_REF_X2};
    (void)md_fx_visit(pairs_of(c)->sum[sum].weight, find_ref, &s);
    return s.found;
}

/* ---- operands */

static md_status print_place(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, int32_t operand)
{
    const md_st_pair_operand *o = &pairs_of(c)->operand[operand];
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    const char *condition = NULL;
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out,
                     "MD_INLINE int64_t md_pairs_place%d(const md_params *p, const md_chain_batch *b, const "
                     "md_chain_row *r, int64_t key)\n{\n(void)p;\n",
                     (int)operand);
    md_cg_pairs_print_place(out, c, o->is_of_keys);
    md_strbuf_printf(out, "const int64_t x%d = 0;\n(void)x%d;\n", (int)o->inner, (int)o->inner);
    md_cg_begin(cg, out);
    const char *offset = md_cg_offset(cg, o->load, &condition);
    if (offset)
        md_strbuf_printf(out, "return %s;\n}\n", offset);
    return md_cg_chain_end(defines, &cg);
}

static void print_data(md_strbuf *out, const md_cg_chain *c)
{
    const md_st_pairs *p = pairs_of(c);
    md_strbuf_add(out, "MD_INLINE const uint16_t *md_pairs_data(int which, const md_params *p)\n{\n");
    for (int32_t i = 0; i < p->n_operands; i++)
        md_strbuf_printf(out, "if (which == %d)\nreturn (const uint16_t *)p->t%d;\n", (int)i,
                         (int)p->operand[i].load->id);
    md_strbuf_add(out, "return nullptr;\n}\n");
}

static void print_lengths(md_strbuf *out, const md_cg_chain *c)
{
    md_strbuf_add(out, "MD_INLINE constexpr int md_pairs_length(int which)\n{\nreturn ");
    for (int32_t i = 0; i < pairs_of(c)->n_operands; i++)
        md_strbuf_printf(out, "which == %d ? %s : ", (int)i, md_cg_pairs_is_deep(c, i) ? "MD_DEPTH" : "MD_WIDTH");
    md_strbuf_add(out, "0;\n}\n");
}

/* ---- weights */

static md_status print_weight(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, int32_t sum, bool is_open)
{
    const md_st_pair_sum *s = &pairs_of(c)->sum[sum];
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    md_strbuf_printf(out,
                     "MD_INLINE float md_pairs_%s%d(const md_params *p, const md_chain_row *r, int64_t key, float x, "
                     "float x2)\n{\n(void)p, (void)x, (void)x2;\n",
                     is_open ? "open" : "weight", (int)sum);
    md_cg_chain_print_row(out, c, "r");
    md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d;\n", (int)c->axis, (int)c->axis);
    md_cg_begin(cg, out);
    md_cg_chain_bind_kept(cg, c);
    md_cg_bind_ref(cg, MD_ST_REF_X, MD_F32, "x", true);
    md_cg_bind_ref(cg, MD_ST_REF_X2, MD_F32, "x2", true);
    const char *value = md_cg_value(cg, unrounded(c, is_open ? s->open : s->weight), NULL);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
    return md_cg_chain_end(defines, &cg);
}

/* The late weight, in which the early one is REF(E). */
static const md_fx_node *late_weight(const md_cg_chain *c, md_arena *arena, int32_t late, int32_t early, bool is_open)
{
    static const md_fx_node ref = {.kind = MD_FX_REF, .type = MD_F32, .id = MD_ST_REF_E};
    const md_st_pair_sum *l = &pairs_of(c)->sum[late], *e = &pairs_of(c)->sum[early];
    return md_fx_replace(c->program->formula, arena, is_open ? l->open : l->weight, is_open ? e->open : e->weight,
                         &ref);
}

bool md_cg_pairs_follows(const md_cg_chain *c, int32_t late, int32_t early)
{
    md_arena *arena = md_arena_create();
    bool follows = arena != NULL;
    for (int32_t i = 0; follows && i < 2; i++) {
        const md_fx_node *weight = late_weight(c, arena, late, early, i == 1);
        ref_search x = {.id = MD_ST_REF_X}, before = {.id = MD_ST_REF_E};
        if (weight) {
            (void)md_fx_visit(weight, find_ref, &x);
            (void)md_fx_visit(weight, find_ref, &before);
        }
        follows = weight && before.found && !x.found;
    }
    md_arena_destroy(&arena);
    return follows;
}

static md_status print_late(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, const md_fx_node *weight,
                            const char *name)
{
    md_cg *cg = md_cg_chain_printer(c, -1, MD_CG_STRIDED);
    if (!cg || !weight)
        return md_fail_memory();
    md_strbuf_printf(out,
                     "MD_INLINE float %s(const md_params *p, const md_chain_row *r, int64_t key, float early, float "
                     "x2)\n{\n(void)p, (void)early, (void)x2;\n",
                     name);
    md_cg_chain_print_row(out, c, "r");
    md_strbuf_printf(out, "const int64_t x%d = key;\n(void)x%d;\n", (int)c->axis, (int)c->axis);
    md_cg_begin(cg, out);
    md_cg_chain_bind_kept(cg, c);
    md_cg_bind_ref(cg, MD_ST_REF_E, MD_F32, "early", true);
    md_cg_bind_ref(cg, MD_ST_REF_X2, MD_F32, "x2", true);
    const char *value = md_cg_value(cg, unrounded(c, weight), NULL);
    if (value)
        md_strbuf_printf(out, "return %s;\n}\n", value);
    return md_cg_chain_end(defines, &cg);
}

md_status md_cg_pairs_print_late(md_strbuf *defines, md_strbuf *out, const md_cg_chain *c, int32_t late, int32_t early)
{
    md_arena *arena = md_arena_create();
    if (!arena)
        return md_fail_memory();
    md_status status = print_late(defines, out, c, late_weight(c, arena, late, early, false), "md_pairs_late");
    if (status == MD_OK)
        status = print_late(defines, out, c, late_weight(c, arena, late, early, true), "md_pairs_late_open");
    md_arena_destroy(&arena);
    return status;
}

/* ---- notes */

/* A field of md_chain_row that rows differ in. */
typedef struct field {
    char name[24], kind; /* i: 32 bits of an index; f, l: a float, 64 bits */
} field;

static bool differs(const md_cg_chain *c, const md_fx_node *node)
{
    for (int32_t i = 0; i < c->c->n_rows; i++)
        if (md_fx_uses_index(node, c->c->rows[i]))
            return true;
    return false;
}

static int32_t fields_of(field out[MD_MAX_RANK * 2 + MD_CG_MAX_KEPT + 1], const md_cg_chain *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_kept; i++)
        if (differs(c, c->kept[i])) {
            const md_dtype type = c->kept[i]->type;
            (void)snprintf(out[n].name, sizeof out[n].name, "kept%d", (int)i);
            out[n++].kind = type == MD_F32 ? 'f' : type == MD_BOOL ? 'i' : type == MD_F64 ? 'd' : 'l';
        }
    for (int32_t i = 0; i < c->c->n_rows + (c->c->share > 1); i++) {
        (void)snprintf(out[n].name, sizeof out[n].name, "x%d",
                       (int)(i < c->c->n_rows ? c->c->rows[i] : c->c->share_index));
        out[n++].kind = 'i';
    }
    return n;
}

static void print_note(md_strbuf *out, const field *f, int32_t at, bool is_put)
{
    static const struct {
        char kind;
        const char *one, *two;
    } type[] = {
        {'f', "float", "float2"}, {'i', "int", "int2"}, {'l', "long long", "longlong2"}, {'d', "double", "double2"}};
    int32_t k = 0;
    while (type[k].kind != f->kind)
        k++;
    if (is_put)
        md_strbuf_printf(out, "((%s *)(notes + %d * 64))[line] = (%s)r.%s;\n", type[k].one, (int)at, type[k].one,
                         f->name);
    else
        md_strbuf_printf(
            out, "{\nconst %s v = ((const %s *)(notes + %d * 64))[line / 2];\nr[0].%s = v.x;\nr[1].%s = v.y;\n}\n",
            type[k].two, type[k].two, (int)at, f->name, f->name);
}

void md_cg_pairs_print_notes(md_strbuf *out, const md_cg_chain *c)
{
    field list[MD_MAX_RANK * 2 + MD_CG_MAX_KEPT + 1];
    const int32_t n = fields_of(list, c);
    int32_t bytes = 0;
    for (int32_t put = 1; put >= 0; put--) {
        md_strbuf_add(
            out, put ? "MD_INLINE void md_note_put(unsigned char *notes, int line, const md_chain_row &r)\n{\n"
                     : "MD_INLINE void md_note_get(md_chain_row (&r)[2], const unsigned char *notes, int line)\n{\n");
        bytes = 0;
        /* those of 64 bits first, so that all are aligned */
        for (int32_t wide = 1; wide >= 0; wide--)
            for (int32_t i = 0; i < n; i++)
                if ((list[i].kind == 'l' || list[i].kind == 'd') == wide) {
                    print_note(out, &list[i], bytes, put);
                    bytes += wide ? 8 : 4;
                }
        md_strbuf_add(out, "}\n");
    }
    md_strbuf_printf(out, "enum { MD_NOTE_BYTES = %d };\n", (int)bytes);
}

static void print_uses(md_strbuf *out, const md_cg_chain *c)
{
    md_strbuf_add(out, "MD_INLINE constexpr int md_pairs_uses(int which, int product)\n{\nreturn ");
    for (int32_t i = 0; i < pairs_of(c)->n_sums; i++)
        md_strbuf_printf(out, "which == %d ? (product == 0 ? %d : %d) : ", (int)i, md_cg_pairs_uses(c, i, 0),
                         md_cg_pairs_uses(c, i, 1));
    md_strbuf_add(out, "0;\n}\nMD_INLINE constexpr int md_pairs_halves(int which)\n{\nreturn ");
    for (int32_t i = 0; i < pairs_of(c)->n_sums; i++)
        md_strbuf_printf(out, "which == %d ? %d : ", (int)i, (int)md_cg_pairs_halves(c, i));
    md_strbuf_add(out, "0;\n}\n");
}

md_status md_cg_pairs_print_cuda(md_strbuf *defines, md_strbuf *expr, const md_cg_chain *c, const md_kn_param *param,
                                 int32_t n_params)
{
    const md_st_pairs *p = pairs_of(c);
    md_cg_pairs_print_head(defines, expr, c, param, n_params);
    md_strbuf_printf(defines, "#define MD_PAIR_BOUNDS %d\n#define MD_PAIR_OPENS %d\n", c->c->n_bounds > 0,
                     c->c->is_bounded);
    MD_TRY(md_cg_chain_print_places(defines, expr, c));
    MD_TRY(md_cg_chain_print_span(defines, expr, c));
    MD_TRY(md_cg_chain_print_lengths(defines, expr, c));
    md_cg_pairs_print_numbers(expr, c);
    print_lengths(expr, c);
    print_data(expr, c);
    for (int32_t i = 0; i < p->n_operands; i++)
        MD_TRY(print_place(defines, expr, c, i));
    for (int32_t i = 0; i < p->n_sums; i++) {
        MD_TRY(print_weight(defines, expr, c, i, false));
        MD_TRY(print_weight(defines, expr, c, i, true));
    }
    print_uses(expr, c);
    MD_TRY(md_cg_pairs_print_stores(defines, expr, c));
    md_cg_pairs_print_choice(expr,
                             "int64_t md_pairs_place(int which, const md_params *p, const md_chain_batch *b, const "
                             "md_chain_row *r, int64_t key)",
                             p->n_operands, "md_pairs_place%d(p, b, r, key)", "return -1;\n");
    md_cg_pairs_print_choice(
        expr,
        "float md_pairs_weight(int which, const md_params *p, const md_chain_row *r, int64_t key, float x, float x2)",
        p->n_sums, "md_pairs_weight%d(p, r, key, x, x2)", "return 0;\n");
    md_cg_pairs_print_choice(
        expr,
        "float md_pairs_open(int which, const md_params *p, const md_chain_row *r, int64_t key, float x, float x2)",
        p->n_sums, "md_pairs_open%d(p, r, key, x, x2)", "return 0;\n");
    return expr->failed || defines->failed ? md_fail_memory() : MD_OK;
}
