/* Calls CBLAS: finds address and leading dimension of each matrix from the shape of the call. */
#include "base/dtype.h"
#include "base/status.h"
#include "family/host/product/gemm_lib.h"

#include "md_build_config.h"

#if MD_HAVE_BLAS

#include <cblas.h>
#include <limits.h>

static const md_st_product *groups_of(const md_cg_product *p)
{
    return &p->program->stage[p->stage].product;
}

/* The axis that an index runs along: -1 for none, -2 for several. */
static int32_t axis_of(int32_t rank, const md_fx_node *const *subscript, int32_t index)
{
    int32_t found = -1;
    for (int32_t a = 0; a < rank; a++)
        if (subscript[a]->kind == MD_FX_INDEX && subscript[a]->id == index)
            found = found == -1 ? a : -2;
    return found;
}

/* True if a group's indices are neighbouring axes in order, so that in a contiguous tensor they act as one axis. */
static bool is_run(int32_t rank, const md_fx_node *const *subscript, int32_t n, const int32_t *index)
{
    int32_t first = n > 0 ? axis_of(rank, subscript, index[0]) : 0;
    for (int32_t i = 0; i < n; i++)
        if (axis_of(rank, subscript, index[i]) != first + i || first < 0)
            return false;
    return true;
}

/* How a product reads or writes a tensor. */
typedef struct access {
    int32_t tensor, rank;
    const md_fx_node *const *subscript;
} access;

/* Some indices of the product. */
typedef struct group {
    int32_t n;
    const int32_t *index;
} group;

/* Requirements on strides: bits by tensor. */
typedef struct needs {
    uint32_t unit, contiguous;
} needs;

/* True if a tensor can be seen as matrices of two groups. These and the batch must be all its axes, and the last axis
 * must not belong to the batch. Adds what that requires of its strides. */
static bool suits(needs *out, const access *x, const group *a, const group *b)
{
    if (!is_run(x->rank, x->subscript, a->n, a->index) || !is_run(x->rank, x->subscript, b->n, b->index) ||
        x->rank == 0 || x->subscript[x->rank - 1]->kind != MD_FX_INDEX)
        return false;
    int32_t last = x->subscript[x->rank - 1]->id;
    if (!md_cg_product_holds(a->n, a->index, last) && !md_cg_product_holds(b->n, b->index, last))
        return false;
    out->unit |= UINT32_C(1) << x->tensor;
    if (a->n > 1 || b->n > 1)
        out->contiguous |= UINT32_C(1) << x->tensor;
    return true;
}

/* The same for the first store's tensor as a matrix of rows and columns. */
static bool suits_result(needs *out, const md_cg_product *product)
{
    const md_st_store *s = &product->program->stage[product->stage].store[0];
    const access x = {s->tensor, s->n_subscripts, s->subscript};
    return suits(out, &x, &(group){product->n_rows, product->rows}, &(group){product->n_columns, product->columns});
}

bool md_fa_lib_is_direct(const md_cg_product *product)
{
    const md_st_stage *stage = &product->program->stage[product->stage];
    const md_st_store *s = &stage->store[0];
    return stage->n_stores == 1 && s->assign == MD_FX_SET && s->value->kind == MD_FX_REF && s->value->id == 0 &&
           product->program->formula->tensor[s->tensor].dtype == product->type && product->n_products == 1 &&
           !stage->has_scatter && suits_result(&(needs){0}, product);
}

bool md_fa_lib_needs(uint32_t *unit, uint32_t *contiguous, const md_cg_product *product)
{
    const md_st_product *g = groups_of(product);
    needs all = {0};
    *unit = *contiguous = 0;
    if (product->type != MD_F32 && product->type != MD_F64)
        return false;
    for (int32_t i = 0; i <= product->n_products; i++) {
        const md_fx_node *load = product->load[i];
        int32_t n_rows;
        const int32_t *rows = md_cg_product_group(&n_rows, product, i);
        if (!load || product->program->formula->tensor[load->id].dtype != product->type ||
            !suits(&all, &(access){load->id, load->n_args, load->arg}, &(group){n_rows, rows}, &(group){g->n_k, g->k}))
            return false;
    }
    if (md_fa_lib_is_direct(product))
        suits_result(&all, product);
    *unit = all.unit;
    *contiguous = all.contiguous;
    return true;
}

/* ---- The call */
typedef struct matrix {
    char *data;
    int64_t rows, columns, row, step; /* sizes; strides in elements */
} matrix;

/* The stride of a group: that of its last index, which moves fastest. */
static int64_t stride_of(const md_kn_call *call, int32_t tensor, int32_t rank, const md_fx_node *const *subscript,
                         int32_t n, const int32_t *index)
{
    int32_t axis = n > 0 ? axis_of(rank, subscript, index[n - 1]) : -1;
    return axis >= 0 ? call->shape->stride[tensor][axis] : 0;
}

/* Where a batch index puts a matrix along an axis: the index, or its share; 0 where the axis has other subscripts. */
static int64_t coordinate_of(const md_cg_product *p, const md_fx_node *subscript, int32_t index, int64_t value)
{
    if (md_fx_is_index(subscript, index))
        return value;
    if (!md_cg_product_is_share(p, subscript) || subscript->arg[0]->id != index)
        return 0;
    const int64_t n = subscript->arg[1]->integer;
    return subscript->op == MD_FX_MOD ? value % n : value / n;
}

/* The offset of matrix number `batch`, in elements. */
static int64_t batch_offset(const md_kn_call *call, const md_cg_product *p, int32_t tensor, int32_t rank,
                            const md_fx_node *const *subscript, int64_t batch)
{
    const md_st_product *g = groups_of(p);
    int64_t offset = 0;
    for (int32_t i = g->n_batch - 1; i >= 0; i--) {
        int64_t size = md_st_size(p->program, g->batch[i], call->shape->size);
        for (int32_t a = 0; a < rank; a++)
            offset += coordinate_of(p, subscript[a], g->batch[i], batch % size) * call->shape->stride[tensor][a];
        batch /= size;
    }
    return offset;
}

/* The leading dimension, and whether the matrix is stored by columns. False if CBLAS cannot take it: strides repeat or
 * overlap elements. */
static bool leading(int64_t *ld, bool *by_columns, const matrix *m)
{
    bool is_row = m->step == 1 || m->columns <= 1, is_column = m->row == 1 || m->rows <= 1;
    *by_columns = !is_row;
    if (!is_row && !is_column)
        return false;
    int64_t least = is_row ? m->columns : m->rows, count = is_row ? m->rows : m->columns;
    *ld = is_row ? m->row : m->step;
    if (count <= 1 && *ld < least)
        *ld = least;
    if (*ld < 1)
        *ld = 1;
    return *ld >= least && *ld <= INT_MAX;
}

/* Plain loops, for strides that CBLAS does not take. */
static void multiply_plainly(md_dtype type, const matrix *a, const matrix *b, const matrix *c)
{
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < a->columns; k++)
                sum += md_dtype_load(type, a->data, i * a->row + k * a->step) *
                       md_dtype_load(type, b->data, j * b->row + k * b->step);
            md_dtype_store(type, c->data, i * c->row + j * c->step, sum);
        }
}

/* c = a * b', a[rows][k], b[columns][k]. */
static void multiply(md_dtype type, const matrix *a, const matrix *b, const matrix *c)
{
    int64_t lda, ldb, ldc;
    bool a_transposed, b_transposed, c_transposed;
    if (!leading(&lda, &a_transposed, a) || !leading(&ldb, &b_transposed, b) || !leading(&ldc, &c_transposed, c) ||
        a->columns == 0) {
        multiply_plainly(type, a, b, c);
        return;
    }
    CBLAS_ORDER order = c_transposed ? CblasColMajor : CblasRowMajor;
    CBLAS_TRANSPOSE ta = a_transposed != c_transposed ? CblasTrans : CblasNoTrans,
                    tb = b_transposed != c_transposed ? CblasNoTrans : CblasTrans;
    int m = (int)c->rows, n = (int)c->columns, k = (int)a->columns;
    if (type == MD_F32)
        cblas_sgemm(order, ta, tb, m, n, k, 1.0F, (const float *)(void *)a->data, (int)lda,
                    (const float *)(void *)b->data, (int)ldb, 0.0F, (float *)(void *)c->data, (int)ldc);
    else
        cblas_dgemm(order, ta, tb, m, n, k, 1.0, (const double *)(void *)a->data, (int)lda,
                    (const double *)(void *)b->data, (int)ldb, 0.0, (double *)(void *)c->data, (int)ldc);
}

static matrix operand_of(const md_kn_call *call, const md_cg_product *p, int32_t operand, int64_t batch)
{
    const md_st_product *g = groups_of(p);
    const md_fx_node *load = p->load[operand];
    int32_t n;
    const int32_t *rows = md_cg_product_group(&n, p, operand);
    int64_t offset = batch_offset(call, p, load->id, load->n_args, load->arg, batch);
    return (matrix){.data = (char *)call->data[load->id] + offset * (int64_t)md_dtype_size(p->type),
                    .rows = md_st_points(p->program, n, rows, call->shape->size),
                    .columns = md_st_points(p->program, g->n_k, g->k, call->shape->size),
                    .row = stride_of(call, load->id, load->n_args, load->arg, n, rows),
                    .step = stride_of(call, load->id, load->n_args, load->arg, g->n_k, g->k)};
}

static matrix result_of(const md_kn_call *call, const md_cg_product *p, int32_t product, int64_t batch, int64_t batches)
{
    const md_st_store *s = &p->program->stage[p->stage].store[0];
    int64_t item = (int64_t)md_dtype_size(p->type);
    matrix m = {.rows = md_st_points(p->program, p->n_rows, p->rows, call->shape->size),
                .columns = md_st_points(p->program, p->n_columns, p->columns, call->shape->size)};
    if (!md_fa_lib_is_direct(p)) {
        m.row = m.columns;
        m.step = 1;
        m.data = (char *)call->workspace + (product * batches + batch) * m.rows * m.columns * item;
        return m;
    }
    m.row = stride_of(call, s->tensor, s->n_subscripts, s->subscript, p->n_rows, p->rows);
    m.step = stride_of(call, s->tensor, s->n_subscripts, s->subscript, p->n_columns, p->columns);
    m.data =
        (char *)call->data[s->tensor] + batch_offset(call, p, s->tensor, s->n_subscripts, s->subscript, batch) * item;
    return m;
}

md_status md_fa_lib_run(const md_kn_call *call)
{
    const md_st_program *program = call->program;
    md_cg_product p;
    int32_t stage = (int32_t)((const md_st_stage *)call->stage - program->stage);
    if (!md_cg_product_of(&p, program, stage, MD_CG_COLUMNS_STORED))
        return md_fail(MD_INTERNAL, "stage %d is no product", (int)stage);
    const md_st_product *g = groups_of(&p);
    int64_t batches = md_st_points(program, g->n_batch, g->batch, call->shape->size);
    for (int32_t i = 0; i < p.n_products; i++)
        for (int64_t batch = 0; batch < batches; batch++) {
            matrix a = operand_of(call, &p, MD_CG_A, batch), b = operand_of(call, &p, MD_CG_B + i, batch);
            matrix c = result_of(call, &p, i, batch, batches);
            multiply(p.type, &a, &b, &c);
        }
    return MD_OK;
}

#else /* without CBLAS the family applies to nothing */

bool md_fa_lib_is_direct(const md_cg_product *product)
{
    (void)product;
    return false;
}

bool md_fa_lib_needs(uint32_t *unit, uint32_t *contiguous, const md_cg_product *product)
{
    (void)product;
    *unit = *contiguous = 0;
    return false;
}

md_status md_fa_lib_run(const md_kn_call *call)
{
    (void)call;
    return md_fail(MD_UNSUPPORTED, "built without CBLAS");
}

#endif
