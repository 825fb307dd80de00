/* Which stages are convolutions in the sense of a library, and where their axes lie. */
#include "family/cuda/product/conv_layout.h"

#include "codegen/product/window.h"

typedef struct subscripts {
    const md_fx_node *const *at;
    int32_t rank;
} subscripts;

/* What is known while axes are found. */
typedef struct finding {
    const md_cg_product *product;
    const md_st_product *stage;
    const md_fx_formula *formula;
    md_cg_window window;
    subscripts filter, result;
    md_fa_conv_layout *out;
} finding;

static int32_t dim_of(const finding *f, int32_t index)
{
    return f->product->program->index[index].dim;
}

/* True for an index that a convolution sums over: its gradient does not, but over the others of the image. */
static bool is_summed(const finding *f, int32_t index)
{
    return md_cg_product_holds(f->stage->n_k, f->stage->k, index) != f->out->is_of_filter;
}

/* The axis of a load or a store that is a plain index; -1: none is. */
static int32_t axis_of(const subscripts *list, int32_t index)
{
    for (int32_t a = 0; a < list->rank; a++)
        if (md_fx_is_index(list->at[a], index))
            return a;
    return -1;
}

static void put(md_fa_conv_layout *out, int32_t tensor, int32_t at, int32_t axis, int32_t dim)
{
    out->axis[tensor][at] = axis;
    out->dim[tensor][at] = axis < 0 ? -1 : dim;
}

/* Puts an index where the filter and the result have it. False if one that is there (>= 0) has no axis. */
static bool put_filter(finding *f, int32_t at, int32_t index)
{
    const int32_t axis = index < 0 ? -1 : axis_of(&f->filter, index);
    put(f->out, 1, at, axis, index < 0 ? -1 : dim_of(f, index));
    return index < 0 || axis >= 0;
}

static bool put_result(finding *f, int32_t at, int32_t index)
{
    const int32_t axis = axis_of(&f->result, index);
    put(f->out, 2, at, axis, dim_of(f, index));
    return axis >= 0;
}

/* An axis of the image: y*step + r*apart - before. */
static bool add_image_axis(finding *f, int32_t axis, const md_fx_affine *place)
{
    md_fa_conv_layout *out = f->out;
    const int32_t at = out->n_axes, i = at - 2;
    int32_t row = -1, point = -1;
    if (at == MD_FA_CONV_AXES || place->n_sizes > 0 || place->n > 2 || place->constant > 0 ||
        place->constant < -(1 << 20))
        return false;
    out->step[i] = out->apart[i] = 1;
    out->before[i] = -place->constant;
    for (int32_t j = 0; j < place->n; j++) {
        int32_t *index = is_summed(f, place->index[j]) ? &point : &row;
        if (*index >= 0 || place->coef[j] < 1 || place->coef[j] > 1 << 20)
            return false;
        *index = place->index[j];
        *(index == &row ? &out->step[i] : &out->apart[i]) = place->coef[j];
    }
    out->n_axes++;
    put(out, 0, at, axis, f->formula->tensor[f->window.load->id].dim[axis]);
    return row >= 0 && put_result(f, at, row) && put_filter(f, at, point);
}

/* The batch is the first axis that is a plain index of the rows; channels are a plain index of K. In the gradient of
 * the filter it is the other way round. */
static bool add_axis(finding *f, int32_t axis)
{
    const md_fx_node *subscript = f->window.load->arg[axis];
    md_fx_affine place;
    if (subscript->kind == MD_FX_INDEX && is_summed(f, subscript->id)) {
        put(f->out, 0, 1, axis, dim_of(f, subscript->id));
        return put_filter(f, 1, subscript->id);
    }
    if (subscript->kind == MD_FX_INDEX && f->out->axis[0][0] < 0) {
        put(f->out, 0, 0, axis, dim_of(f, subscript->id));
        return put_result(f, 0, subscript->id);
    }
    return md_fx_affine_of(&place, f->formula, subscript) && add_image_axis(f, axis, &place);
}

/* True if a term of the guard says that an axis is not left: its place, or the size less one and its place, is 0 or
 * more. */
static bool is_edge(const finding *f, const md_fx_affine *term)
{
    for (int32_t axis = 0; axis < f->window.load->n_args; axis++) {
        md_fx_affine place;
        if (!md_fx_affine_of(&place, f->formula, f->window.load->arg[axis]) || place.n != term->n)
            continue;
        const int32_t dim = f->formula->tensor[f->window.load->id].dim[axis];
        const int64_t fixed = f->formula->dim[dim].size, sign = term->n > 0 && term->coef[0] < 0 ? -1 : 1;
        bool is_same = term->constant == sign * place.constant + (sign > 0 ? 0 : (fixed >= 0 ? fixed : 0) - 1);
        for (int32_t i = 0; i < term->n; i++)
            is_same = is_same && md_cg_coefficient(&place, term->index[i]) == sign * term->coef[i];
        const bool has_size = sign < 0 && fixed < 0;
        if (is_same && term->n_sizes == has_size && (!has_size || (term->dim[0] == dim && term->size_coef[0] == 1)))
            return true;
    }
    return false;
}

static bool has_plain_guard(const finding *f)
{
    for (int32_t i = 0; i < f->window.terms.n; i++)
        if (!is_edge(f, &f->window.terms.term[i]))
            return false;
    return true;
}

static bool find_axes(finding *f)
{
    const md_cg_product *p = f->product;
    md_fa_conv_layout *out = f->out;
    out->n_axes = 2;
    put(out, 0, 0, -1, -1);
    put(out, 0, 1, -1, -1);
    for (int32_t axis = 0; axis < f->window.load->n_args; axis++)
        if (!add_axis(f, axis))
            return false;
    return out->axis[0][0] >= 0 && out->axis[0][1] >= 0 && out->n_axes > 2 && put_filter(f, 0, p->columns[0]) &&
           put_result(f, 1, p->columns[0]) && has_plain_guard(f);
}

/* What was compared with the reference on a GPU: images of two and three axes, all of which the filter has, too, or
 * none. Of one axis, given a second one of size 1, the library made wrong results. */
static bool is_tried(const md_fa_conv_layout *layout)
{
    int32_t n = 0;
    for (int32_t i = 2; i < layout->n_axes; i++)
        n += layout->dim[1][i] >= 0;
    return layout->n_axes >= 4 && (n == layout->n_axes - 2 || (n == 0 && layout->has_planes));
}

static bool has_planes(const md_fa_conv_layout *layout, const md_fx_formula *formula)
{
    for (int32_t t = 0; t < MD_FA_CONV_TENSORS; t++)
        if (layout->axis[t][1] != formula->tensor[layout->tensor[t]].rank - 1)
            return true;
    return false;
}

/* Finds the axes of the stored tensor and of the plain operand, as one is the result and the other one the filter. */
static bool find_as(finding *f, const md_st_store *store, bool is_of_filter)
{
    const md_fx_node *load = f->product->load[MD_CG_B];
    const subscripts stored = {store->subscript, f->formula->tensor[store->tensor].rank},
                     read = {load->arg, load->n_args};
    md_fa_conv_layout *out = f->out;
    out->is_of_filter = is_of_filter;
    f->filter = is_of_filter ? stored : read;
    f->result = is_of_filter ? read : stored;
    out->tensor[0] = f->window.load->id;
    out->tensor[1] = is_of_filter ? store->tensor : load->id;
    out->tensor[2] = is_of_filter ? load->id : store->tensor;
    return find_axes(f);
}

/* The gradient of a filter may also be read as a convolution of channels by batches, whose filter is as large as the
 * image: it is one where the sum is over the first axis. */
static bool find_kind(finding *f, const md_st_store *store)
{
    return (find_as(f, store, false) && f->out->axis[0][0] == 0) || find_as(f, store, true) || find_as(f, store, false);
}

/* True if operand A may be an image: it is a window, or a matrix for each image, as planes of a 1 x 1 filter are. */
static bool is_image(const md_cg_product *p, const md_st_product *stage)
{
    return p->load[MD_CG_A] ? stage->n_batch == 1 : stage->n_batch == 0;
}

bool md_fa_conv_layout_of(md_fa_conv_layout *out, const md_cg_product *p)
{
    const md_st_stage *stage = &p->program->stage[p->stage];
    finding f = {.product = p, .stage = md_cg_product_stage(p), .formula = p->program->formula, .out = out};
    if (p->n_products != 1 || p->n_columns != 1 || !p->load[MD_CG_B] || stage->n_stores != 1 || !is_image(p, f.stage) ||
        !md_cg_window_of(&f.window, p, MD_CG_A))
        return false;
    const md_st_store *store = &stage->store[0];
    if (stage->has_scatter || store->assign != MD_FX_SET || store->value->kind != MD_FX_REF ||
        f.stage->n_k != p->load[MD_CG_B]->n_args - 1 || !find_kind(&f, store))
        return false;
    out->has_planes = has_planes(out, f.formula);
    return is_tried(out);
}
