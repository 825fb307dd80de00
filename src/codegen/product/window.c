/* Operands that are windows of a tensor, X[n,c,2*y+r-1,2*x+s-1] of a convolution: loads with affine subscripts, zero
 * where a guard of affine comparisons does not hold. Their values lie in runs along one index, of the rows or of K. A
 * place and the terms of the guard are sums of a part of the rows and one of K, so that both are found once for many
 * elements, and a run's ends by comparing numbers. */
#include "codegen/product/window.h"

#include <inttypes.h>

int64_t md_cg_coefficient(const md_fx_affine *subscript, int32_t index)
{
    for (int32_t i = 0; i < subscript->n; i++)
        if (subscript->index[i] == index)
            return subscript->coef[i];
    return 0;
}

static int64_t moves(const md_cg_product *p, const md_fx_node *load, int32_t axis, int32_t index)
{
    md_fx_affine place;
    return md_fx_affine_of(&place, p->program->formula, load->arg[axis]) ? md_cg_coefficient(&place, index) : 0;
}

static int64_t size_of(const md_cg_product *p, int32_t index)
{
    return p->program->formula->dim[p->program->index[index].dim].size;
}

static bool is_short(const md_cg_product *p, int32_t index)
{
    enum { SHORT = 16 };
    const int64_t size = size_of(p, index);
    return size >= 0 && size <= SHORT;
}

/* True if a run along the index is whole pieces of what GPUs copy at once, such as eight channels. */
static bool is_of_pieces(const md_cg_product *p, int32_t index)
{
    enum { PIECE = 8 };
    const int64_t size = size_of(p, index);
    return p->dialect == MD_DEV_CUDA && size > 0 && size % PIECE == 0;
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
    if (by_k && n > 1 && is_short(product, k) && !is_short(product, row) && (by_row || !is_of_pieces(product, k)))
        return MD_CG_ALONG_ROWS;
    return by_k && (!by_row || is_short(product, row)) ? MD_CG_ALONG_DEPTH : MD_CG_ALONG_ROWS;
}

/* ---- What the texts of both devices have */

bool md_cg_window_of(md_cg_window *out, const md_cg_product *product, int32_t operand)
{
    *out = (md_cg_window){.product = product, .operand = operand, .along = -1};
    out->load = md_cg_terms_of(&out->terms, product->program->formula, product->operand[operand], product->type);
    return out->load;
}

bool md_cg_product_window_is_small(const md_cg_product *p, int32_t operand)
{
    enum { MOST = 128 }; /* of 2^24 each */
    md_cg_window w;
    if (!md_cg_window_of(&w, p, operand))
        return false;
    for (int32_t i = 0; i < w.terms.n; i++) {
        int64_t sum = 0;
        if (w.terms.term[i].constant > 1 << 24 || w.terms.term[i].constant < -(1 << 24))
            return false;
        for (int32_t j = 0; j < w.terms.term[i].n; j++)
            sum += w.terms.term[i].coef[j] < 0 ? -w.terms.term[i].coef[j] : w.terms.term[i].coef[j];
        for (int32_t j = 0; j < w.terms.term[i].n_sizes; j++)
            sum += w.terms.term[i].size_coef[j] < 0 ? -w.terms.term[i].size_coef[j] : w.terms.term[i].size_coef[j];
        if (sum >= MOST - 1)
            return false;
    }
    return true;
}

bool md_cg_product_window_pieces(md_cg_window_pieces *out, const md_cg_product *p, int32_t operand)
{
    md_cg_window w;
    md_fx_affine place;
    const md_st_product *s = md_cg_product_stage(p);
    if (!md_cg_window_of(&w, p, operand) || w.load->n_args == 0)
        return false;
    const int32_t k = s->k[s->n_k - 1], last = w.load->n_args - 1;
    out->n_terms = w.terms.n;
    for (int32_t axis = 0; axis < last; axis++)
        if (moves(p, w.load, axis, k) != 0)
            return false;
    for (int32_t i = 0; i < w.terms.n; i++)
        if (md_cg_coefficient(&w.terms.term[i], k) != 0)
            return false;
    if (!md_fx_affine_of(&place, p->program->formula, w.load->arg[last]) || place.constant % 8 != 0)
        return false;
    for (int32_t i = 0; i < place.n; i++)
        if (place.index[i] == k ? place.coef[i] != 1 : place.coef[i] % 8 != 0)
            return false;
    return md_cg_coefficient(&place, k) == 1 && place.n_sizes == 0;
}

static bool belongs(const md_cg_window *w, int32_t index)
{
    const md_st_product *s = md_cg_product_stage(w->product);
    return index != w->along && md_cg_product_holds(s->n_k, s->k, index) == w->is_depth;
}

static void print_affine(md_strbuf *out, const md_cg_window *w, const md_fx_affine *sum)
{
    md_strbuf_printf(out, "%" PRId64, w->is_depth ? 0 : sum->constant);
    for (int32_t i = 0; i < sum->n; i++)
        if (belongs(w, sum->index[i]))
            md_strbuf_printf(out, " + %" PRId64 " * x%" PRId32, sum->coef[i], sum->index[i]);
    for (int32_t i = 0; i < sum->n_sizes && !w->is_depth; i++)
        md_strbuf_printf(out, " + %" PRId64 " * p->n%" PRId32, sum->size_coef[i], sum->dim[i]);
}

void md_cg_window_print_sums(md_strbuf *out, const md_cg_window *w)
{
    md_strbuf_add(out, "part->at = 0");
    for (int32_t axis = 0; axis < w->load->n_args; axis++) {
        md_fx_affine place;
        if (!md_fx_affine_of(&place, w->product->program->formula, w->load->arg[axis]))
            continue;
        md_strbuf_add(out, " + (");
        print_affine(out, w, &place);
        md_strbuf_printf(out, ") * p->s%" PRId32 "_%" PRId32, w->load->id, axis);
    }
    md_strbuf_add(out, ";\n");
    for (int32_t i = 0; i < w->terms.n; i++) {
        md_strbuf_printf(out, "part->term[%" PRId32 "] = ", i);
        print_affine(out, w, &w->terms.term[i]);
        md_strbuf_add(out, ";\n");
    }
}

void md_cg_window_print_step(md_strbuf *out, const md_cg_window *w, int32_t index)
{
    md_strbuf_add(out, "0");
    for (int32_t axis = 0; axis < w->load->n_args; axis++) {
        const int64_t by = moves(w->product, w->load, axis, index);
        if (by != 0)
            md_strbuf_printf(out, " + %" PRId64 " * p->s%" PRId32 "_%" PRId32, by, w->load->id, axis);
    }
}

/* The last place of an axis that is surely in the tensor, from the sizes that kernels get. False: not known. */
static bool print_last(md_strbuf *out, const md_cg_window *w, int32_t axis)
{
    const md_st_program *program = w->product->program;
    const md_fx_tensor *tensor = &program->formula->tensor[w->load->id];
    md_kn_param list[MD_KN_MAX_PARAMS];
    md_fx_affine place;
    char size[32];
    const int32_t dim = tensor->dim[axis], n = md_cg_params(list, program, w->product->stage);
    if (program->formula->dim[dim].size >= 0) {
        md_strbuf_printf(out, "%" PRId64, program->formula->dim[dim].size - 1);
        return true;
    }
    for (int32_t i = 0; i < n; i++)
        if (list[i].kind == MD_KN_SIZE && list[i].a == dim) {
            md_strbuf_printf(out, "p->n%" PRId32 " - 1", dim);
            return true;
        }
    if (w->terms.n > 0 || !md_fx_affine_of(&place, program->formula, w->load->arg[axis]) || place.n_sizes > 0)
        return false;
    md_strbuf_printf(out, "%" PRId64, place.constant);
    for (int32_t i = 0; i < place.n; i++)
        if (place.coef[i] > 0)
            md_strbuf_printf(out, " + %" PRId64 " * (%s - 1)", place.coef[i],
                             md_cg_size(size, program, place.index[i]));
    return true;
}

void md_cg_window_print_elements(md_strbuf *out, const md_cg_window *w)
{
    md_strbuf sum = {0};
    bool is_known = true;
    for (int32_t axis = 0; axis < w->load->n_args && is_known; axis++) {
        md_strbuf_add(&sum, " + (");
        is_known = print_last(&sum, w, axis);
        md_strbuf_printf(&sum, ") * p->s%" PRId32 "_%" PRId32, w->load->id, axis);
    }
    md_strbuf_printf(out, "%s", is_known ? "1" : "0");
    if (is_known)
        md_strbuf_add(out, md_strbuf_text(&sum));
    out->failed |= sum.failed;
    md_strbuf_finish(&sum);
}
