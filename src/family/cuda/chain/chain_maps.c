/* Tensor maps of the operands of chains and pairs, and what copies by them. */
#include "family/cuda/chain/cuda_chain.h"

#include <inttypes.h>

/* Axes of a load as the copy engine selects along them. */
typedef struct selection {
    const md_cg_chain *chain;
    const md_fx_node *load;
    int32_t inner, line; /* indices: of elements of a line; of lines */
    bool is_of_rows; /* all indices are in a row; else those of a batch are in a batch */
} selection;

int32_t md_fa_cuda_chain_inner(const md_cg_chain *c, md_st_side side)
{
    return side == MD_ST_V ? c->c->columns[0] : c->c->depth[0];
}

static bool is_among(int32_t n, const int32_t *list, int32_t index)
{
    for (int32_t i = 0; i < n; i++)
        if (list[i] == index)
            return true;
    return false;
}

static bool is_outer(const selection *s, int32_t index)
{
    const md_st_chain *c = s->chain->c;
    return is_among(c->n_batch, c->batch, index) || (s->is_of_rows && is_among(c->n_rows, c->rows, index));
}

/* Prints what selects along an axis: an outer index, also divided, or a number. */
static bool print_coordinate(md_strbuf *out, const selection *s, const md_fx_node *n)
{
    const char from = s->is_of_rows ? 'r' : 'b';
    if (n->kind == MD_FX_INDEX && is_outer(s, n->id)) {
        md_strbuf_printf(out, ", (int)%c.x%" PRId32, from, n->id);
        return true;
    }
    if (n->kind == MD_FX_OP && n->op == MD_FX_FLOORDIV && n->arg[0]->kind == MD_FX_INDEX &&
        is_outer(s, n->arg[0]->id) && n->arg[1]->kind == MD_FX_CONST && n->arg[1]->integer >= 1) {
        md_strbuf_printf(out, ", (int)(%c.x%" PRId32 " / %" PRId64 ")", from, n->arg[0]->id, n->arg[1]->integer);
        return true;
    }
    return false;
}

static bool map_of(md_kn_map *m, md_strbuf *coordinates, const selection *s)
{
    const md_fx_node *load = s->load;
    int32_t line = -1;
    *m = (md_kn_map){.tensor = (uint8_t)load->id,
                     .dtype = (uint8_t)s->chain->program->formula->tensor[load->id].dtype,
                     .swizzle = 128};
    if (load->n_args < 2 || load->n_args > MD_KN_MAP_AXES || !md_fx_is_index(load->arg[load->n_args - 1], s->inner))
        return false;
    m->axes[0] = (uint8_t)(load->n_args - 1);
    m->n_axes = 2;
    for (int32_t a = load->n_args - 2; a >= 0; a--) {
        if (line < 0 && md_fx_is_index(load->arg[a], s->line)) {
            line = a;
            continue;
        }
        if (!print_coordinate(coordinates, s, load->arg[a]))
            return false;
        m->axes[m->n_axes++] = (uint8_t)a;
    }
    m->axes[1] = (uint8_t)line;
    for (int32_t i = 0; i < m->n_axes; i++)
        m->axes_box[i] = 1;
    return line >= 0;
}

bool md_fa_cuda_chain_map(md_kn_map *m, md_strbuf *coordinates, const md_cg_chain *c, md_st_side side)
{
    const selection s = {
        .chain = c, .load = c->c->side[side].load, .inner = md_fa_cuda_chain_inner(c, side), .line = c->axis};
    return map_of(m, coordinates, &s);
}

bool md_fa_cuda_pairs_map(md_kn_map *m, md_strbuf *coordinates, const md_cg_chain *c, int32_t operand)
{
    const md_st_pair_operand *o = &c->c->pairs->operand[operand];
    if (!o->is_of_keys && c->c->n_rows == 0)
        return false;
    const selection s = {.chain = c,
                         .load = o->load,
                         .inner = o->inner,
                         .line = o->is_of_keys ? c->axis : c->c->rows[c->c->n_rows - 1],
                         .is_of_rows = !o->is_of_keys};
    return map_of(m, coordinates, &s);
}

/* The copy function of a map. */
static const char *load_name(int32_t n_axes)
{
    static const char *const load[] = {
        [2] = "md_tma_load2", [3] = "md_tma_load", [4] = "md_tma_load4", [5] = "md_tma_load5"};
    return load[n_axes];
}

void md_fa_cuda_chain_print_copy(md_strbuf *out, const char *name, int32_t number, const md_kn_map *map,
                                 const md_strbuf *coordinates)
{
    md_strbuf_printf(out,
                     "MD_INLINE void md_copy_%s(unsigned to, const md_params &p, const md_chain_batch &b, int element, "
                     "int key, unsigned bar)\n{\n(void)b;\n%s(to, &p.map%" PRId32 ", element, key%s, bar);\n}\n",
                     name, load_name(map->n_axes), number, coordinates->size ? md_strbuf_text(coordinates) : "");
}

void md_fa_cuda_pairs_print_copy(md_strbuf *out, const char *name, int32_t number, const md_kn_map *map,
                                 const md_strbuf *coordinates, const md_cg_chain *c)
{
    md_strbuf_printf(out,
                     "MD_INLINE void md_copy_%s(unsigned to, const md_params &p, const md_chain_row &r, int element, "
                     "unsigned bar)\n{\n%s(to, &p.map%" PRId32 ", element, (int)r.x%" PRId32 "%s, bar);\n}\n",
                     name, load_name(map->n_axes), number, c->c->rows[c->c->n_rows - 1],
                     coordinates->size ? md_strbuf_text(coordinates) : "");
}

bool md_fa_cuda_chain_is_mapped(const md_cg_chain *c)
{
    md_kn_map map;
    md_strbuf coordinates = {0};
    const bool r =
        md_fa_cuda_chain_map(&map, &coordinates, c, MD_ST_K) && md_fa_cuda_chain_map(&map, &coordinates, c, MD_ST_V);
    const bool is_whole = !coordinates.failed;
    md_strbuf_finish(&coordinates);
    return r && is_whole;
}
