/* How a PRODUCT stage becomes a product of rows x columns: which indices are which, what its operands are, and along
 * what they lie in memory. */
#include "codegen/product/product.h"
#include "codegen/product/terms.h"

#include <inttypes.h>
#include <string.h>

const md_st_product *md_cg_product_stage(const md_cg_product *p)
{
    return &p->program->stage[p->stage].product;
}

bool md_cg_product_holds(int32_t n, const int32_t *index, int32_t id)
{
    for (int32_t i = 0; i < n; i++)
        if (index[i] == id)
            return true;
    return false;
}

/* True if the first store runs over the stage's m fastest. */
static bool stores_along_m(const md_st_stage *stage)
{
    const md_st_store *store = &stage->store[0];
    const md_fx_node *last = store->n_subscripts > 0 ? store->subscript[store->n_subscripts - 1] : NULL;
    return last && last->kind == MD_FX_INDEX && md_cg_product_holds(stage->product.n_m, stage->product.m, last->id);
}

bool md_cg_product_is_plain(const md_fx_node *node)
{
    for (int32_t i = 0; i < node->n_args; i++)
        if (node->arg[i]->kind != MD_FX_INDEX)
            return false;
    return node->kind == MD_FX_LOAD;
}

bool md_cg_product_is_share(const md_cg_product *p, const md_fx_node *n)
{
    const md_st_product *product = md_cg_product_stage(p);
    return n->kind == MD_FX_OP && (n->op == MD_FX_FLOORDIV || n->op == MD_FX_MOD) && n->arg[0]->kind == MD_FX_INDEX &&
           md_cg_product_holds(product->n_batch, product->batch, n->arg[0]->id) && n->arg[1]->kind == MD_FX_CONST &&
           n->arg[1]->type == MD_I64 && n->arg[1]->integer >= 1;
}

static bool is_depth(const md_st_product *product, const md_fx_node *node)
{
    return node->kind == MD_FX_INDEX && md_cg_product_holds(product->n_k, product->k, node->id);
}

/* True if each subscript of a load is an index of K, or does not depend on K. */
static bool has_rows(const md_st_product *product, const md_fx_node *load)
{
    bool has_depth = false;
    for (int32_t axis = 0; axis < load->n_args; axis++) {
        const bool is_k = is_depth(product, load->arg[axis]);
        has_depth |= is_k;
        for (int32_t i = 0; i < product->n_k && !is_k; i++)
            if (md_fx_uses_index(load->arg[axis], product->k[i]))
                return false;
    }
    return load->kind == MD_FX_LOAD && has_depth;
}

/* What an operand is, less a cast to the accumulators' type, which does what loading does anyway. */
static const md_fx_node *without_cast(const md_fx_node *node, md_dtype type)
{
    return node->kind == MD_FX_CAST && node->to == type ? node->arg[0] : node;
}

/* The LOAD that an operand is, as a matrix in memory for each batch. */
static const md_fx_node *load_of(const md_cg_product *p, int32_t operand)
{
    const md_fx_node *node = without_cast(p->operand[operand], p->type);
    for (int32_t i = 0; i < node->n_args; i++)
        if (node->arg[i]->kind != MD_FX_INDEX && !md_cg_product_is_share(p, node->arg[i]))
            return NULL;
    return node->kind == MD_FX_LOAD ? node : NULL;
}

/* Rows that several indices count need not be a matrix in memory, as X[t,k] is none with the rows (t,s). */
static const md_fx_node *row_load_of(const md_cg_product *p, int32_t operand)
{
    const md_fx_node *node = without_cast(p->operand[operand], p->type);
    const bool is_matrix = p->load[operand] && !(p->is_grouped && operand == MD_CG_A && p->n_rows > 1);
    return !is_matrix && has_rows(md_cg_product_stage(p), node) ? node : NULL;
}

/* The load of a window. NULL also for a load that is a matrix of one index a side: it is read as a matrix. */
static const md_fx_node *window_of(const md_cg_product *p, int32_t operand)
{
    md_cg_terms t;
    const int32_t n_k = md_cg_product_stage(p)->n_k;
    int32_t n_rows;
    md_cg_product_group(&n_rows, p, operand);
    const bool is_matrix = p->load[operand] && n_rows <= 1 && n_k <= 1;
    return is_matrix || p->is_grouped || n_rows == 0 || n_k == 0
               ? NULL
               : md_cg_terms_of(&t, p->program->formula, p->operand[operand], p->type);
}

/* Orders the products so that all share operand A. */
static bool set_operands(md_cg_product *out, const md_fx_formula *formula, const md_st_product *product)
{
    const md_fx_node *const *b = out->is_grouped ? product->of_group : product->b;
    const md_fx_node *const *rows = out->is_swapped ? b : product->a, *const *columns =
                                                                          out->is_swapped ? product->a : b;
    if (product->n_products == 2 && !md_fx_equal(formula, rows[0], rows[1]))
        return false;
    out->operand[MD_CG_A] = rows[0];
    for (int32_t i = 0; i < product->n_products; i++)
        out->operand[MD_CG_B + i] = columns[i];
    for (int32_t i = 0; i <= product->n_products; i++) {
        out->load[i] = load_of(out, i);
        out->row_load[i] = row_load_of(out, i);
        out->window[i] = window_of(out, i);
    }
    return true;
}

/* True if all operands are loads of these types, whose steps of K can be taken two by two. Spans begin anywhere. */
static bool are_all(const md_cg_product *p, uint32_t dtypes)
{
    for (int32_t i = 0; i <= p->n_products; i++)
        if (!p->load[i] || !(dtypes >> md_cg_product_dtype(p, p->load[i]) & 1))
            return false;
    return !p->is_grouped && !p->has_spans;
}

/* Products of which two fit into 32 bits with a sign, as one instruction makes them. */
static bool are_integer_pairs(const md_cg_product *p)
{
    return are_all(p, UINT32_C(1) << MD_I8 | UINT32_C(1) << MD_U8 | UINT32_C(1) << MD_I4 | UINT32_C(1) << MD_U4);
}

void md_cg_product_pair_bf16(md_cg_product *product, const md_dev_facts *facts)
{
    product->is_paired |= facts->vector_bytes == 64 && strstr(facts->flags, "-mavx512bf16") &&
                          product->type == MD_F32 && are_all(product, UINT32_C(1) << MD_BF16);
}

static bool orient(md_cg_product *out, const md_st_program *program, int32_t stage, bool is_swapped)
{
    const md_st_product *product = &program->stage[stage].product;
    *out = (md_cg_product){.program = program,
                           .stage = stage,
                           .is_swapped = is_swapped,
                           .is_grouped = product->look_up != NULL,
                           .has_spans = product->guard != NULL,
                           .n_products = product->n_products,
                           .type = product->type};
    out->n_rows = is_swapped ? product->n_n : product->n_m;
    out->rows = is_swapped ? product->n : product->m;
    out->n_columns = is_swapped ? product->n_m : product->n_n;
    out->columns = is_swapped ? product->m : product->n;
    if (out->n_columns == 0 || !set_operands(out, program->formula, product))
        return false;
    out->is_paired = are_integer_pairs(out);
    return true;
}

const int32_t *md_cg_product_batch(int32_t *n, const md_cg_product *product, int32_t operand)
{
    const md_st_product *s = md_cg_product_stage(product);
    *n = !product->is_grouped ? s->n_batch : operand == MD_CG_A ? 0 : 1;
    return product->is_grouped ? &s->group : s->batch;
}

const int32_t *md_cg_product_group(int32_t *n, const md_cg_product *product, int32_t operand)
{
    *n = operand == MD_CG_A ? product->n_rows : product->n_columns;
    return operand == MD_CG_A ? product->rows : product->columns;
}

/* ---- Along what an operand lies in memory */
typedef struct largest {
    const md_cg_product *product;
    int32_t operand, n_indices, last; /* of the largest load so far */
} largest;

/* Loads over more of rows and depth count more. */
static bool weigh_load(void *user, const md_fx_node *node)
{
    largest *s = user;
    if (node->kind != MD_FX_LOAD || node->n_args == 0)
        return true;
    int32_t n_rows, n = 0;
    const int32_t *rows = md_cg_product_group(&n_rows, s->product, s->operand);
    const md_st_product *product = md_cg_product_stage(s->product);
    for (int32_t i = 0; i < n_rows; i++)
        n += md_fx_uses_index(node, rows[i]);
    for (int32_t i = 0; i < product->n_k; i++)
        n += md_fx_uses_index(node, product->k[i]);
    if (n > s->n_indices) {
        const md_fx_node *last = node->arg[node->n_args - 1];
        s->n_indices = n;
        s->last = last->kind == MD_FX_INDEX ? last->id : -1;
    }
    return true;
}

static md_cg_along find_along(const md_cg_product *product, int32_t operand)
{
    largest s = {.product = product, .operand = operand, .last = -1};
    md_fx_visit(product->operand[operand], weigh_load, &s);
    const md_st_product *prod = md_cg_product_stage(product);
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, product, operand);
    if (prod->n_k > 0 && s.last == prod->k[prod->n_k - 1])
        return MD_CG_ALONG_DEPTH;
    return n_rows > 0 && s.last == rows[n_rows - 1] ? MD_CG_ALONG_ROWS : MD_CG_ALONG_NEITHER;
}

/* An answer of md_cg_product_of, as the program keeps it. */
typedef struct known {
    bool is_product;
    md_cg_product product;
} known;

static void make_known(void *result, const md_st_program *program, int32_t stage, const void *columns)
{
    known *out = result;
    const md_cg_columns c = *(const md_cg_columns *)columns;
    const md_st_stage *s = &program->stage[stage];
    const bool is_stored = c == MD_CG_COLUMNS_STORED || c == MD_CG_COLUMNS_SPANS,
               is_swapped = is_stored ? stores_along_m(s) : c == MD_CG_COLUMNS_M;
    memset(out, 0, sizeof *out);
    if ((s->product.look_up != NULL) != (c == MD_CG_COLUMNS_GROUPED) ||
        (s->product.guard != NULL) != (c == MD_CG_COLUMNS_SPANS))
        return;
    out->is_product = orient(&out->product, program, stage, is_swapped) ||
                      (is_stored && orient(&out->product, program, stage, !is_swapped));
    for (int32_t o = 0; o <= out->product.n_products && out->is_product; o++)
        out->product.along[o] = find_along(&out->product, o);
}

bool md_cg_product_of(md_cg_product *out, const md_st_program *program, int32_t stage, md_cg_columns columns)
{
    known k;
    if (program->stage[stage].kind != MD_ST_PRODUCT)
        return false;
    md_st_know(&k, program, stage,
               &(md_st_fact){.which = MD_ST_KNOWN_PRODUCTS + (int32_t)columns,
                             .n_bytes = sizeof k,
                             .make = make_known,
                             .user = &columns});
    *out = k.product;
    return k.is_product;
}

md_cg_along md_cg_product_along(const md_cg_product *product, int32_t operand)
{
    return product->along[operand];
}

int32_t md_cg_product_lane(const md_cg_product *product, int32_t operand)
{
    const md_st_product *prod = md_cg_product_stage(product);
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, product, operand);
    md_cg_along along = md_cg_product_along(product, operand);
    if (along == MD_CG_ALONG_DEPTH && prod->n_k == 1) /* lanes must not wrap from one index of a group to the next */
        return prod->k[0];
    return along == MD_CG_ALONG_ROWS && n_rows == 1 ? rows[0] : -1;
}

/* ---- Unit strides */
typedef struct unit_search {
    int32_t lane;
    uint32_t tensors;
    int32_t axis[MD_FX_MAX_TENSORS]; /* the last one */
} unit_search;

static void note_unit(unit_search *s, int32_t tensor, int32_t rank, const md_fx_node *last)
{
    if (rank > 0 && md_fx_uses_index(last, s->lane)) {
        s->tensors |= UINT32_C(1) << tensor;
        s->axis[tensor] = rank - 1;
    }
}

static bool visit_load(void *user, const md_fx_node *node)
{
    if (node->kind == MD_FX_LOAD)
        note_unit(user, node->id, node->n_args, node->n_args > 0 ? node->arg[node->n_args - 1] : NULL);
    return true;
}

/* `p->s3_1 == 1 && ...` of the tensors found; "1" for none. */
static void print_unit_test(md_strbuf *out, const unit_search *s)
{
    md_strbuf_add(out, "1");
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        if (s->tensors >> t & 1)
            md_strbuf_printf(out, " && p->s%" PRId32 "_%" PRId32 " == 1", t, s->axis[t]);
}

static void find_units(unit_search *s, const md_fx_node *node, int32_t lane)
{
    *s = (unit_search){.lane = lane};
    md_fx_visit(node, visit_load, s);
}

uint32_t md_cg_product_unit(const md_cg_product *product, int32_t operand)
{
    int32_t lane = md_cg_product_lane(product, operand);
    unit_search s = {.lane = lane};
    if (lane >= 0)
        find_units(&s, product->operand[operand], lane);
    return s.tensors;
}

void md_cg_product_print_unit_test(md_strbuf *out, const md_fx_node *node, int32_t lane)
{
    unit_search s;
    find_units(&s, node, lane);
    print_unit_test(out, &s);
}

void md_cg_product_print_unit_stores(md_strbuf *out, const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    unit_search s = {.lane = p->columns[p->n_columns - 1]};
    for (int32_t i = 0; i < stage->n_stores; i++) {
        const md_st_store *store = &stage->store[i];
        md_fx_visit(store->value, visit_load, &s);
        if (store->n_subscripts > 0)
            note_unit(&s, store->tensor, store->n_subscripts, store->subscript[store->n_subscripts - 1]);
    }
    print_unit_test(out, &s);
}
