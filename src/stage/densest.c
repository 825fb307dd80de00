/* Which index of a sum over several lies densest in memory. */
#include "stage/form.h"

enum { MIN_INNER = 16 /* a static axis shorter than this is a window, not a row */ };

typedef struct densest {
    const md_fx_formula *formula;
    const md_fx_node *load; /* the load that most indices run over */
    int32_t n;
} densest;

/* True if a term's steps are longer than all that terms with smaller steps reach together: g*4 + c, where c < 4. */
static bool is_apart(const md_fx_formula *f, const md_fx_affine *a, int32_t term)
{
    int64_t reach = 1;
    for (int32_t k = 0; k < a->n; k++) {
        const int64_t size = f->dim[f->index[a->index[k]].dim].size;
        if (k == term || a->coef[k] > a->coef[term])
            continue;
        if (a->coef[k] <= 0 || a->coef[k] == a->coef[term] || size < 0 ||
            __builtin_add_overflow(reach, a->coef[k] * MD_MAX(size - 1, 0), &reach))
            return false;
    }
    return a->coef[term] >= reach;
}

/* How many indices the load runs over where each point of them is another element; 0 where points share elements. */
static int32_t count_apart(const md_fx_formula *f, const md_fx_node *load)
{
    md_st_set seen = {{0}};
    int32_t n = 0;
    for (int32_t i = 0; i < load->n_args; i++) {
        md_fx_affine a;
        if (!md_fx_affine_of(&a, f, load->arg[i]))
            return 0;
        for (int32_t k = 0; k < a.n; k++, n++) {
            if (md_st_set_has(&seen, a.index[k]) || !is_apart(f, &a, k))
                return 0;
            md_st_set_add(&seen, a.index[k]);
        }
    }
    return n;
}

static bool note_densest(void *user, const md_fx_node *node)
{
    densest *d = user;
    const int32_t n = node->kind == MD_FX_LOAD ? count_apart(d->formula, node) : 0;
    if (n > d->n) {
        d->load = node;
        d->n = n;
    }
    return true;
}

int32_t md_st_densest(const md_fx_formula *f, const md_fx_node *reduce, int32_t n_outside)
{
    densest d = {.formula = f};
    (void)md_fx_visit(reduce->arg[0], note_densest, &d);
    if (d.n == 0 || d.n < n_outside + reduce->n_bound || reduce->op == MD_FX_R_ARGMAX || reduce->op == MD_FX_R_ARGMIN)
        return -1;
    for (int32_t i = d.load->n_args - 1; i >= 0; i--)
        for (int32_t k = 0; k < reduce->n_bound; k++) {
            int64_t size = f->dim[f->index[reduce->bound[k]].dim].size;
            if (md_fx_is_index(d.load->arg[i], reduce->bound[k]) && (size < 0 || size >= MIN_INNER))
                return k;
        }
    return -1;
}
