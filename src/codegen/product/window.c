/* Operands that are windows of a tensor, X[n,c,2*y+r-1,2*x+s-1] of a convolution: loads with affine subscripts, zero
 * where a guard of affine comparisons does not hold. Their values lie in runs along one index, of the rows or of K. A
 * place and the terms of the guard are sums of a part of the rows and one of K, so that both are found once for many
 * elements, and a run's ends by comparing numbers. */
#include "codegen/product/product.h"
#include "codegen/product/terms.h"

#include <inttypes.h>
#include <stdio.h>

/* How far an index moves a subscript. */
static int64_t coefficient(const md_fx_affine *a, int32_t index)
{
    for (int32_t i = 0; i < a->n; i++)
        if (a->index[i] == index)
            return a->coef[i];
    return 0;
}

static int64_t moves(const md_cg_product *p, const md_fx_node *load, int32_t axis, int32_t index)
{
    md_fx_affine place;
    return md_fx_affine_of(&place, p->program->formula, load->arg[axis]) ? coefficient(&place, index) : 0;
}

static bool is_short(const md_cg_product *p, int32_t index)
{
    enum { SHORT = 16 };
    const int64_t size = p->program->formula->dim[p->program->index[index].dim].size;
    return size >= 0 && size <= SHORT;
}

int32_t md_cg_product_window(const md_cg_product *product)
{
    for (int32_t o = 0; o <= product->n_products; o++)
        if (product->window[o] && !product->load[o] && !product->row_load[o])
            return o;
    return -1;
}

md_cg_along md_cg_product_window_along(const md_cg_product *product, int32_t operand)
{
    const md_fx_node *load = product->window[operand];
    const md_st_product *s = md_cg_product_stage(product);
    int32_t n;
    const int32_t *rows = md_cg_product_group(&n, product, operand);
    if (!load)
        return MD_CG_ALONG_NEITHER;
    const int32_t row = rows[n - 1], k = s->k[s->n_k - 1], last = load->n_args - 1;
    const bool by_row = moves(product, load, last, row) != 0, by_k = moves(product, load, last, k) != 0;
    /* In a convolution along the image, not along the few points of the filter: whether both move the last subscript,
     * or, of a view with an axis for each, the points alone. */
    if (by_k && n > 1 && is_short(product, k) && !is_short(product, row))
        return MD_CG_ALONG_ROWS;
    return by_k && (!by_row || is_short(product, row)) ? MD_CG_ALONG_DEPTH : MD_CG_ALONG_ROWS;
}

/* ---- The text. Both parts are affine in indices x<id>, of which the run's own counts as 0. */
typedef struct part {
    const md_cg_product *product;
    const md_fx_node *load;
    bool is_depth; /* indices of K; else of rows and batches, with constants and sizes */
    int32_t along; /* the index of the run */
} part;

static bool belongs(const part *a, int32_t index)
{
    const md_st_product *s = md_cg_product_stage(a->product);
    return index != a->along && md_cg_product_holds(s->n_k, s->k, index) == a->is_depth;
}

static void print_affine(md_strbuf *out, const part *a, const md_fx_affine *sum)
{
    md_strbuf_printf(out, "%" PRId64, a->is_depth ? 0 : sum->constant);
    for (int32_t i = 0; i < sum->n; i++)
        if (belongs(a, sum->index[i]))
            md_strbuf_printf(out, " + %" PRId64 " * x%" PRId32, sum->coef[i], sum->index[i]);
    for (int32_t i = 0; i < sum->n_sizes && !a->is_depth; i++)
        md_strbuf_printf(out, " + %" PRId64 " * p->n%" PRId32, sum->size_coef[i], sum->dim[i]);
}

static void print_sums(md_strbuf *out, const part *a, const md_cg_terms *t)
{
    md_strbuf_add(out, "part->at = 0");
    for (int32_t axis = 0; axis < a->load->n_args; axis++) {
        md_fx_affine place;
        if (!md_fx_affine_of(&place, a->product->program->formula, a->load->arg[axis]))
            continue;
        md_strbuf_add(out, " + (");
        print_affine(out, a, &place);
        md_strbuf_printf(out, ") * p->s%" PRId32 "_%" PRId32, a->load->id, axis);
    }
    md_strbuf_add(out, ";\n");
    for (int32_t i = 0; i < t->n; i++) {
        md_strbuf_printf(out, "part->term[%" PRId32 "] = ", i);
        print_affine(out, a, &t->term[i]);
        md_strbuf_add(out, ";\n");
    }
}

/* How far an index moves the load, in elements. */
static void print_step(md_strbuf *out, const part *a, int32_t index)
{
    md_strbuf_add(out, "0");
    for (int32_t axis = 0; axis < a->load->n_args; axis++) {
        const int64_t by = moves(a->product, a->load, axis, index);
        if (by != 0)
            md_strbuf_printf(out, " + %" PRId64 " * p->s%" PRId32 "_%" PRId32, by, a->load->id, axis);
    }
}

/* The last place of an axis that is surely in the tensor, from the sizes that kernels get. False: not known. */
static bool print_last(md_strbuf *out, const part *a, const md_cg_terms *t, int32_t axis)
{
    const md_st_program *program = a->product->program;
    const md_fx_tensor *tensor = &program->formula->tensor[a->load->id];
    md_kn_param list[MD_KN_MAX_PARAMS];
    md_fx_affine place;
    char size[32];
    const int32_t dim = tensor->dim[axis], n = md_cg_params(list, program, a->product->stage);
    if (program->formula->dim[dim].size >= 0) {
        md_strbuf_printf(out, "%" PRId64, program->formula->dim[dim].size - 1);
        return true;
    }
    for (int32_t i = 0; i < n; i++)
        if (list[i].kind == MD_KN_SIZE && list[i].a == dim) {
            md_strbuf_printf(out, "p->n%" PRId32 " - 1", dim);
            return true;
        }
    if (t->n > 0 || !md_fx_affine_of(&place, program->formula, a->load->arg[axis]) || place.n_sizes > 0)
        return false;
    md_strbuf_printf(out, "%" PRId64, place.constant);
    for (int32_t i = 0; i < place.n; i++)
        if (place.coef[i] > 0)
            md_strbuf_printf(out, " + %" PRId64 " * (%s - 1)", place.coef[i],
                             md_cg_size(size, program, place.index[i]));
    return true;
}

/* Elements from the tensor's first to its last; 0: not known. */
static void print_elements(md_strbuf *out, const part *a, const md_cg_terms *t)
{
    md_strbuf sum = {0};
    bool is_known = true;
    for (int32_t axis = 0; axis < a->load->n_args && is_known; axis++) {
        md_strbuf_add(&sum, " + (");
        is_known = print_last(&sum, a, t, axis);
        md_strbuf_printf(&sum, ") * p->s%" PRId32 "_%" PRId32, a->load->id, axis);
    }
    md_strbuf_printf(out, "%s", is_known ? "1" : "0");
    if (is_known)
        md_strbuf_add(out, md_strbuf_text(&sum));
    out->failed |= sum.failed;
    md_strbuf_finish(&sum);
}

/* Where the run's index lies for each term to be at least 0. */
static void print_range(md_strbuf *out, const part *a, const md_cg_terms *t)
{
    for (int32_t i = 0; i < t->n; i++) {
        const int64_t by = coefficient(&t->term[i], a->along);
        md_strbuf_printf(out, "{ const int64_t e = row->term[%" PRId32 "] + depth->term[%" PRId32 "];\n", i, i);
        if (by == 0)
            md_strbuf_add(out, "if (e < 0) *end = 0;\n");
        else if (by > 0)
            md_strbuf_printf(out,
                             "const int64_t least = e >= 0 ? 0 : (%" PRId64 " - e) / %" PRId64
                             ";\nif (*begin < least) *begin = least;\n",
                             by - 1, by);
        else
            md_strbuf_printf(
                out, "const int64_t most = e < 0 ? 0 : e / %" PRId64 " + 1;\nif (*end > most) *end = most;\n", -by);
        md_strbuf_add(out, "}\n");
    }
}

/* From a step of K to the next indices are counted, not divided. */
static void print_depth(md_strbuf *out, const part *a, const md_cg_terms *t, int32_t operand)
{
    const md_st_program *program = a->product->program;
    const md_st_product *s = md_cg_product_stage(a->product);
    const int32_t last = s->k[s->n_k - 1];
    for (int32_t is_next = 0; is_next < 2; is_next++) {
        md_strbuf_printf(out,
                         "MD_INLINE void md_window_%s_%" PRId32
                         "(const md_params *p, int64_t k, md_window_steps *steps)\n{\n(void)p, (void)k;\n"
                         "md_window_part *part = &steps->part;\n",
                         is_next ? "next" : "depth", operand);
        for (int32_t i = 0; i < s->n_k && is_next; i++)
            md_strbuf_printf(out, "int64_t x%" PRId32 " = steps->x[%" PRId32 "];\n", s->k[i], i);
        if (is_next)
            md_cg_print_advance(out, program, s->n_k, s->k);
        else
            md_cg_print_decode(out, program, s->n_k, s->k, "k");
        for (int32_t i = 0; i < s->n_k; i++)
            md_strbuf_printf(out, "steps->x[%" PRId32 "] = x%" PRId32 ";\n", i, s->k[i]);
        print_sums(out, a, t);
        md_strbuf_printf(out, "part->along = %s%" PRId32 ";\n}\n", a->along == last ? "x" : "",
                         a->along == last ? last : 0);
    }
}

/* Steps of K until its first index moves on, and how far that moves the load, if it moves no term of the guard. */
static void print_period(md_strbuf *out, const part *a, const md_cg_terms *t)
{
    const md_st_product *s = md_cg_product_stage(a->product);
    bool is_free = s->k[0] != a->along;
    for (int32_t i = 0; i < t->n; i++)
        is_free &= coefficient(&t->term[i], s->k[0]) == 0;
    if (!is_free) {
        md_strbuf_add(out, ", INT64_MAX, 0");
        return;
    }
    md_strbuf_add(out, ", ");
    md_cg_print_points(out, a->product->program, s->n_k - 1, s->k + 1);
    md_strbuf_add(out, ", ");
    print_step(out, a, s->k[0]);
}

/* All functions of one operand. */
static void print_operand(md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    md_cg_terms t;
    char length[32];
    const md_st_product *s = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    const bool is_rows = md_cg_product_window_along(p, operand) == MD_CG_ALONG_ROWS;
    part a = {.product = p,
              .load = md_cg_terms_of(&t, p->program->formula, p->operand[operand], p->type),
              .along = is_rows ? rows[n - 1] : s->k[s->n_k - 1]};
    md_cg_size(length, p->program, a.along);
    md_strbuf_printf(out,
                     "MD_INLINE void md_window_rows_%" PRId32
                     "(const md_params *p, int64_t batch, int64_t row, md_window_part *part)\n{\n(void)p;\n",
                     operand);
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    print_sums(out, &a, &t);
    md_strbuf_printf(out, "part->along = %s%" PRId32 ";\n}\n", is_rows ? "x" : "", is_rows ? a.along : 0);
    a.is_depth = true;
    print_depth(out, &a, &t, operand);
    md_strbuf_printf(out,
                     "MD_INLINE void md_window_range_%" PRId32
                     "(const md_window_part *row, const md_window_part *depth, int64_t *begin, int64_t *end)\n{\n"
                     "(void)row, (void)depth, (void)begin, (void)end;\n",
                     operand);
    print_range(out, &a, &t);
    md_strbuf_printf(out,
                     "}\nMD_INLINE md_window md_window_make_%" PRId32
                     "(const md_params *p)\n{\n    return (md_window){%s, %s, ",
                     operand, is_rows ? "MD_LANES_ROWS" : "MD_LANES_DEPTH", length);
    print_step(out, &a, a.along);
    md_strbuf_add(out, ", ");
    print_elements(out, &a, &t);
    print_period(out, &a, &t);
    md_strbuf_add(out, "};\n}\n");
}

/* ---- On a GPU: one operand, with all indices in its parts. 32 bits are enough where md_window_is_narrow says so. */

static void print_narrow_indices(md_strbuf *out, const md_cg_product *p)
{
    char size[32];
    const md_st_product *s = md_cg_product_stage(p);
    md_strbuf_add(out, "unsigned rest = k;\n");
    for (int32_t i = s->n_k - 1; i > 0; i--)
        md_strbuf_printf(out,
                         "const unsigned n%" PRId32 " = (unsigned)%s;\nconst int x%" PRId32 " = (int)(rest %% n%" PRId32
                         ");\nrest /= n%" PRId32 ";\n",
                         s->k[i], md_cg_size(size, p->program, s->k[i]), s->k[i], s->k[i], s->k[i]);
    md_strbuf_printf(out, "const int x%" PRId32 " = (int)rest;\n", s->k[0]);
    for (int32_t i = 0; i < s->n_k; i++)
        md_strbuf_printf(out, "(void)x%" PRId32 ";\n", s->k[i]);
}

static void print_limit(md_strbuf *out, const md_cg_product *p, int32_t n, const int32_t *index)
{
    char size[32];
    for (int32_t i = 0; i < n; i++)
        md_strbuf_printf(out, " && %s < 1 << 24", md_cg_size(size, p->program, index[i]));
}

static void print_is_narrow(md_strbuf *out, const part *a, const md_cg_terms *t, int32_t operand)
{
    const md_cg_product *p = a->product;
    const md_st_product *s = md_cg_product_stage(p);
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    md_strbuf_add(out, "MD_INLINE bool md_window_is_narrow(const md_params *p)\n{\n    return ");
    md_cg_print_points(out, p->program, s->n_k, s->k);
    md_strbuf_add(out, " < INT64_C(1) << 31");
    print_limit(out, p, n, rows);
    print_limit(out, p, n_batch, batch);
    print_limit(out, p, s->n_k, s->k);
    for (int32_t i = 0; i < t->n; i++) {
        for (int32_t j = 0; j < t->term[i].n_sizes; j++)
            md_strbuf_printf(out, " && p->n%" PRId32 " < 1 << 24", t->term[i].dim[j]);
    }
    md_strbuf_add(out, " && (uint64_t)(");
    print_elements(out, a, t);
    md_strbuf_add(out, " - 1) < 1 << 30;\n}\n");
}

bool md_cg_product_window_is_small(const md_cg_product *p, int32_t operand)
{
    enum { MOST = 128 }; /* of 2^24 each */
    md_cg_terms t;
    if (!md_cg_terms_of(&t, p->program->formula, p->operand[operand], p->type))
        return false;
    for (int32_t i = 0; i < t.n; i++) {
        int64_t sum = 0;
        if (t.term[i].constant > 1 << 24 || t.term[i].constant < -(1 << 24))
            return false;
        for (int32_t j = 0; j < t.term[i].n; j++)
            sum += t.term[i].coef[j] < 0 ? -t.term[i].coef[j] : t.term[i].coef[j];
        for (int32_t j = 0; j < t.term[i].n_sizes; j++)
            sum += t.term[i].size_coef[j] < 0 ? -t.term[i].size_coef[j] : t.term[i].size_coef[j];
        if (sum >= MOST - 1)
            return false;
    }
    return true;
}

/* True where runs along K are pieces of eight elements that are read together. */
static void print_has_pieces(md_strbuf *out, const part *a, const md_cg_terms *t)
{
    const md_cg_product *p = a->product;
    const md_st_product *s = md_cg_product_stage(p);
    char size[32];
    bool is_free = true;
    for (int32_t i = 0; i < t->n; i++)
        is_free &= coefficient(&t->term[i], s->k[s->n_k - 1]) == 0;
    md_strbuf_printf(out,
                     "MD_INLINE bool md_window_has_pieces(const md_params *p)\n{\n    return %d && %s %% 8 == 0 && (",
                     is_free, md_cg_size(size, p->program, s->k[s->n_k - 1]));
    print_step(out, a, s->k[s->n_k - 1]);
    md_strbuf_add(out, ") == 1;\n}\n");
}

static void print_for_gpu(md_strbuf *defines, md_strbuf *out, const md_cg_product *p, int32_t operand)
{
    md_cg_terms t;
    int32_t n, n_batch;
    const int32_t *rows = md_cg_product_group(&n, p, operand), *batch = md_cg_product_batch(&n_batch, p, operand);
    part a = {.product = p, .load = md_cg_terms_of(&t, p->program->formula, p->operand[operand], p->type), .along = -1};
    md_strbuf_printf(defines, "#define MD_WINDOW %" PRId32 "\n#define MD_WINDOW_TERMS %" PRId32 "\n", operand, t.n);
    md_strbuf_printf(out,
                     "typedef struct md_window_part {\n    int at, term[%" PRId32 "];\n} md_window_part;\n"
                     "MD_INLINE void md_window_rows(const md_params *p, int64_t batch, int64_t row, md_window_part "
                     "*part)\n{\n",
                     MD_MAX(t.n, 1));
    md_cg_print_decode(out, p->program, n_batch, batch, "batch");
    md_cg_print_decode(out, p->program, n, rows, "row");
    print_sums(out, &a, &t);
    a.is_depth = true;
    md_strbuf_add(out, "}\nMD_INLINE void md_window_depth(const md_params *p, unsigned k, md_window_part *part)\n{\n");
    print_narrow_indices(out, p);
    print_sums(out, &a, &t);
    md_strbuf_add(out, "}\n");
    a.is_depth = false;
    print_is_narrow(out, &a, &t, operand);
    print_has_pieces(out, &a, &t);
}

/* `which` is a constant where they are called. */
static void print_choice(md_strbuf *out, const md_cg_product *p, const char *name, const char *arguments)
{
    md_strbuf_printf(out, "#define md_window_%s(which%s) (", name, arguments);
    int32_t last = 0;
    for (int32_t o = 0; o <= p->n_products; o++)
        last = p->window[o] ? o : last;
    for (int32_t o = 0; o < last; o++)
        if (p->window[o])
            md_strbuf_printf(out, "which == %" PRId32 " ? md_window_%s_%" PRId32 "(%s) : ", o, name, o, arguments + 2);
    md_strbuf_printf(out, "md_window_%s_%" PRId32 "(%s))\n", name, last, arguments + 2);
}

void md_cg_product_print_windows(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    uint32_t mask = 0;
    for (int32_t o = 0; o <= p->n_products; o++)
        mask |= p->window[o] ? UINT32_C(1) << o : 0;
    if (mask == 0 || (p->is_paired && p->dialect == MD_DEV_HOST))
        return;
    if (p->dialect != MD_DEV_HOST) {
        print_for_gpu(defines, out, p, md_cg_product_window(p));
        return;
    }
    md_strbuf_printf(defines, "#define MD_WINDOWS %" PRIu32 "\n", mask);
    md_strbuf_printf(
        out,
        "typedef struct md_window {\n    int lanes;\n    int64_t length, step, elements, period, far;\n} md_window;\n"
        "typedef struct md_window_part {\n    int64_t at, along, term[%d];\n} md_window_part;\n"
        "typedef struct md_window_steps {\n    md_window_part part;\n    int64_t x[%d];\n} "
        "md_window_steps;\n",
        MD_CG_MAX_TERMS, MD_MAX_RANK);
    for (int32_t o = 0; o <= p->n_products; o++)
        if (p->window[o])
            print_operand(out, p, o);
    print_choice(out, p, "rows", ", p, batch, row, part");
    print_choice(out, p, "depth", ", p, k, steps");
    print_choice(out, p, "next", ", p, k, steps");
    print_choice(out, p, "range", ", row, depth, begin, end");
    print_choice(out, p, "make", ", p");
}

/* ---- Other expressions, in lanes along such a run */

static bool reads_along(void *index, const md_fx_node *node)
{
    return node->kind != MD_FX_LOAD || node->n_args == 0 ||
           !md_fx_uses_index(node->arg[node->n_args - 1], *(const int32_t *)index);
}

int32_t md_cg_product_run(const md_cg_product *p, int32_t operand)
{
    int32_t n_rows;
    const int32_t *rows = md_cg_product_group(&n_rows, p, operand);
    if (p->dialect != MD_DEV_HOST || p->is_grouped || p->is_paired || md_cg_product_memory(p, operand) || n_rows == 0 ||
        md_cg_product_lane(p, operand) >= 0)
        return -1;
    int32_t last = rows[n_rows - 1];
    return md_fx_visit(p->operand[operand], reads_along, &last) ? -1 : last;
}

void md_cg_product_print_runs(md_strbuf *defines, md_strbuf *out, const md_cg_product *p)
{
    uint32_t mask = 0;
    char size[32];
    for (int32_t o = 0; o <= p->n_products; o++)
        mask |= md_cg_product_run(p, o) >= 0 ? UINT32_C(1) << o : 0;
    if (mask == 0)
        return;
    md_strbuf_printf(defines, "#define MD_RUNS %" PRIu32 "\n", mask);
    md_strbuf_add(out,
                  "MD_INLINE int64_t md_operand_room(const md_params *p, int which, int64_t row)\n{\n    (void)p;\n");
    for (int32_t o = 0; o <= p->n_products; o++)
        if (md_cg_product_run(p, o) >= 0)
            md_strbuf_printf(out, "    if (which == %" PRId32 ")\n        return %s - row %% %s;\n", o,
                             md_cg_size(size, p->program, md_cg_product_run(p, o)), size);
    md_strbuf_add(out, "    return row + 1 - row;\n}\n");
}
