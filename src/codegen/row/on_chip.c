/* Which values of a row program are computed once a row, and which are kept on chip between passes. */
#include "codegen/row/row.h"

#include "base/status.h"
#include "expr/memo.h"

enum { KEEP_COST = 8 }; /* a value is worth a store and a load if recomputing it takes this many operations */

typedef struct chooser {
    md_cg_on_chip *on_chip;
    const md_cg_row_options *options;
    const md_st_stage *stage;
    const md_fx_formula *formula;
    int32_t pass;
    md_memo seen; /* nodes of this walk, with in_arm */
} chooser;

/* The cost of an operation, in plain ones. */
static int32_t cost_of_op(md_fx_op op)
{
    const double slots = md_fx_op_info(op)->slots;
    return md_fx_op_is_heavy(op) || slots >= 100 ? 10 : slots >= 10 ? 4 : 1;
}

typedef struct cost_sum {
    int32_t axis, cost;
} cost_sum;

static bool add_cost(void *user, const md_fx_node *node)
{
    cost_sum *sum = user;
    bool is_gather = false;
    if (sum->axis >= 0 && !md_fx_uses_index(node, sum->axis))
        return true; /* computed once a row */
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++)
        is_gather |= md_fx_has_kind(node->arg[i], MD_FX_LOAD);
    sum->cost += node->kind == MD_FX_REDUCE || node->kind == MD_FX_SCAN || is_gather ? 100 : 0;
    sum->cost += node->kind == MD_FX_OP ? cost_of_op(node->op) : 0;
    return true;
}

/* Operations in a value: those that run over the axis, or all where axis is -1. */
static int32_t cost_of(const md_fx_node *node, int32_t axis)
{
    cost_sum sum = {.axis = axis};
    (void)md_fx_visit(node, add_cost, &sum);
    return sum.cost;
}

static bool is_leaf(const md_fx_node *node)
{
    return node->kind != MD_FX_OP && node->kind != MD_FX_LOAD && node->kind != MD_FX_CAST &&
           node->kind != MD_FX_REDUCE && node->kind != MD_FX_LENGTH;
}

static bool runs_over_axis(const chooser *c, const md_fx_node *node)
{
    return md_fx_uses_index(node, c->stage->axis);
}

typedef struct level_search {
    const md_st_stage *stage;
    int32_t level;
} level_search;

static bool note_level(void *user, const md_fx_node *node)
{
    level_search *s = user;
    if (node->kind == MD_FX_REF)
        s->level = MD_MAX(s->level, s->stage->row.reduction[node->id].level);
    return true;
}

/* True if computing it once a row pays: a compiler hoists plain arithmetic, but not loads across stores. */
static bool is_worth_deriving(const md_fx_node *node)
{
    return !is_leaf(node) &&
           (md_fx_has_kind(node, MD_FX_LOAD) || md_fx_has_kind(node, MD_FX_REF) || cost_of(node, -1) >= 4);
}

static void derive(chooser *c, const md_fx_node *node)
{
    md_cg_on_chip *on_chip = c->on_chip;
    bool for_store = c->pass == c->stage->row.n_levels;
    level_search s = {.stage = c->stage, .level = -1};
    (void)md_fx_visit(node, note_level, &s);
    int32_t i = 0;
    while (i < on_chip->n_derived && !md_fx_equal(c->formula, on_chip->derived[i].node, node))
        i++;
    if (i == MD_CG_MAX_DERIVED)
        return; /* there is no room to remember it: it is computed where it is used */
    if (i == on_chip->n_derived)
        on_chip->derived[on_chip->n_derived++] = (md_cg_derived){.node = node, .level = s.level};
    on_chip->derived[i].for_body |= !for_store;
    on_chip->derived[i].for_store |= for_store;
}

/* ---- Walking a pass. `in_arm`: below an arm of a where, where loads may be out of range and values may never be
 * wanted. */

typedef bool (*walk_fn)(chooser *c, const md_fx_node *node, bool in_arm); /* false: do not go into it */

static void walk(chooser *c, const md_fx_node *node, bool in_arm, walk_fn fn)
{
    if (md_memo_find(&c->seen, node, NULL, in_arm, NULL))
        return;
    (void)md_memo_put(&c->seen, node, NULL, in_arm, node); /* where memory is short the walk takes longer */
    if (!fn(c, node, in_arm) || node->kind == MD_FX_REDUCE || node->kind == MD_FX_SCAN)
        return;
    bool is_where = node->kind == MD_FX_OP && node->op == MD_FX_WHERE;
    for (int32_t i = 0; i < node->n_args; i++)
        walk(c, node->arg[i], in_arm || (is_where && i > 0), fn);
}

static void walk_pass(chooser *c, int32_t pass, walk_fn fn)
{
    const md_st_stage *st = c->stage;
    c->pass = pass;
    for (int32_t i = 0; i < st->row.n_reductions; i++)
        if (st->row.reduction[i].level == pass)
            walk(c, st->row.reduction[i].body, false, fn);
    for (int32_t i = 0; pass == st->row.n_levels && i < st->n_stores; i++) {
        const md_st_store *s = &st->store[i];
        if (s->per_row)
            continue;
        walk(c, s->value, false, fn);
        for (int32_t a = 0; a < s->n_subscripts; a++)
            walk(c, s->subscript[a], false, fn);
    }
    md_memo_finish(&c->seen);
}

static bool derive_maximal(chooser *c, const md_fx_node *node, bool in_arm)
{
    if (runs_over_axis(c, node))
        return true;
    bool may_move = !in_arm || (!md_fx_has_kind(node, MD_FX_LOAD) && !md_fx_has_kind(node, MD_FX_REDUCE));
    if (may_move && is_worth_deriving(node))
        derive(c, node);
    return !may_move;
}

/* ---- Loads that a GPU's threads issue before all arithmetic: they move with the lanes by a fixed step and need no
 * check */

static bool is_plain(const chooser *c, const md_fx_node *load)
{
    md_fx_affine a;
    int64_t coef[MD_MAX_RANK] = {0};
    bool moves = false;
    for (int32_t i = 0; i < load->n_args; i++)
        if (!md_fx_affine_of(&a, c->formula, load->arg[i]))
            return false;
    if (!md_st_step(coef, c->options->program, load->id, load->arg, md_cg_row_lane(c->options)))
        return false;
    for (int32_t i = 0; i < load->n_args; i++)
        moves |= coef[i] != 0;
    return moves;
}

static bool is_shared(const chooser *c, const md_fx_node *load)
{
    for (int32_t i = 0; i < c->stage->n_outer; i++)
        if (md_fx_uses_index(load, c->stage->outer[i]))
            return false;
    return true;
}

static bool collect_load(chooser *c, const md_fx_node *node, bool in_arm)
{
    md_cg_on_chip *on_chip = c->on_chip;
    if (!runs_over_axis(c, node))
        return false;
    if (node->kind != MD_FX_LOAD || in_arm || !is_plain(c, node))
        return true;
    int32_t i = 0;
    while (i < on_chip->n_loads && !md_fx_equal(c->formula, on_chip->load[i].node, node))
        i++;
    if (i == MD_CG_MAX_ROW_LOADS)
        return false; /* there is no room to remember it: it is loaded where it is used */
    if (i == on_chip->n_loads)
        on_chip->load[on_chip->n_loads++] = (md_cg_row_load){.node = node, .is_shared = is_shared(c, node)};
    on_chip->load[i].passes |= UINT32_C(1) << c->pass;
    return false;
}

/* ---- Values kept between passes */

typedef struct finder {
    chooser base;
    const md_fx_node *wanted;
    bool is_found;
} finder;

static bool find_equal(chooser *c, const md_fx_node *node, bool in_arm)
{
    finder *f = (finder *)c;
    if (!in_arm && md_fx_equal(c->formula, node, f->wanted))
        f->is_found = true;
    return !f->is_found && runs_over_axis(c, node);
}

/* The first pass before this one that computes the value anyway; -1. */
static int32_t first_pass_of(const chooser *c, const md_fx_node *node)
{
    for (int32_t pass = 0; pass < c->pass; pass++) {
        finder f = {.base = *c, .wanted = node};
        f.base.seen = (md_memo){0};
        walk_pass(&f.base, pass, find_equal);
        if (f.is_found)
            return pass;
    }
    return -1;
}

/* The reduction that a kept value is relative to, so that it can be scaled to another one: exp(a - max). -1. */
static int32_t shift_of(const chooser *c, const md_fx_node *node)
{
    const md_st_row *row = &c->stage->row;
    const md_fx_node *below = node->kind == MD_FX_OP && node->op == MD_FX_EXP ? node->arg[0] : NULL;
    if (!below || below->kind != MD_FX_OP || below->op != MD_FX_SUB || below->arg[1]->kind != MD_FX_REF ||
        below->arg[1]->type != node->type)
        return -1;
    for (int32_t i = 0; i < row->n_reductions; i++)
        if (row->reduction[i].merge == MD_ST_MERGE_RESCALED && row->reduction[i].shift == below->arg[1]->id)
            return below->arg[1]->id;
    return -1;
}

static bool keep_maximal(chooser *c, const md_fx_node *node, bool in_arm)
{
    md_cg_on_chip *on_chip = c->on_chip;
    if (in_arm || is_leaf(node) || cost_of(node, c->stage->axis) < KEEP_COST)
        return false;
    if (node->type != MD_F32 && node->type != MD_F64)
        return true;
    for (int32_t i = 0; i < on_chip->n_kept; i++)
        if (md_fx_equal(c->formula, on_chip->kept[i].node, node)) {
            on_chip->kept[i].last = c->pass;
            return false;
        }
    int32_t first = first_pass_of(c, node), shift = c->options->is_online ? shift_of(c, node) : -1;
    if (c->options->is_online && shift < 0)
        return true; /* chunks have results of their own, which others cannot use */
    if (first < 0 || on_chip->n_kept == MD_CG_MAX_ON_CHIP)
        return true;
    on_chip->kept[on_chip->n_kept++] =
        (md_cg_on_chip_value){.node = node, .first = first, .last = c->pass, .shift = shift};
    return false;
}

/* ---- Values of sizes and scalars alone that a row's own stores need */

static bool note_other_kind(void *user, const md_fx_node *node)
{
    const bool is_plain = node->kind == MD_FX_CONST || node->kind == MD_FX_SIZE || node->kind == MD_FX_SCALAR ||
                          node->kind == MD_FX_OP || node->kind == MD_FX_CAST;
    *(bool *)user |= !is_plain;
    return is_plain;
}

static bool derive_early(chooser *c, const md_fx_node *node, bool in_arm)
{
    md_cg_on_chip *on_chip = c->on_chip;
    bool has_other = false;
    (void)md_fx_visit(node, note_other_kind, &has_other);
    if (has_other)
        return true;
    if (in_arm || is_leaf(node) || node->type != MD_F32 || cost_of(node, -1) < 4)
        return false;
    for (int32_t i = 0; i < on_chip->n_derived; i++)
        if (md_fx_equal(c->formula, on_chip->derived[i].node, node))
            return false;
    if (on_chip->n_derived < MD_CG_MAX_DERIVED)
        on_chip->derived[on_chip->n_derived++] = (md_cg_derived){.node = node, .level = -1, .is_early = true};
    return false;
}

static void derive_for_rows(chooser *c)
{
    for (int32_t i = 0; i < c->stage->n_stores; i++)
        if (c->stage->store[i].per_row)
            walk(c, c->stage->store[i].value, false, derive_early);
    md_memo_finish(&c->seen);
}

static void choose(md_cg_on_chip *out, const md_cg_row_options *options)
{
    const md_st_stage *st = &options->program->stage[options->stage];
    chooser c = {.on_chip = out, .options = options, .stage = st, .formula = options->program->formula};
    out->n_derived = out->n_kept = out->n_loads = 0;
    for (int32_t pass = 0; pass <= st->row.n_levels; pass++)
        walk_pass(&c, pass, derive_maximal);
    for (int32_t pass = 0; options->dialect == MD_DEV_CUDA && pass <= st->row.n_levels; pass++)
        walk_pass(&c, pass, collect_load);
    if (options->dialect == MD_DEV_CUDA && !options->is_column)
        derive_for_rows(&c);
    for (int32_t pass = 1; options->keep_points > 0 && pass <= st->row.n_levels; pass++)
        walk_pass(&c, pass, keep_maximal);
}

static void make_known(void *out, const md_st_program *program, int32_t stage, const void *options)
{
    (void)program, (void)stage;
    choose(out, options);
}

/* The program keeps the answer: cost models ask thousands of times, about the few variants of a stage. */
void md_cg_on_chip_make(md_cg_on_chip *out, const md_cg_row_options *options)
{
    const uint32_t which = (uint32_t)(options->dialect == MD_DEV_CUDA) | (uint32_t)options->is_column << 1 |
                           (uint32_t)options->is_online << 2 | (uint32_t)(options->keep_points > 0) << 3;
    _Static_assert(MD_ST_KNOWN_ON_CHIP == 16, "a place for each");
    md_st_know(out, options->program, options->stage,
               &(md_st_fact){.which = (int32_t)which, .n_bytes = sizeof *out, .make = make_known, .user = options});
}

static int64_t slot_bytes(const md_cg_on_chip_value *kept, int64_t points)
{
    /* a gap, so that equal positions of two slots are not 4096 bytes apart */
    return points * (kept->node->type == MD_F64 ? 8 : 4) + 256;
}

int64_t md_cg_row_keep_bytes(const md_cg_on_chip *on_chip, int64_t keep_points)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < on_chip->n_kept; i++)
        bytes += slot_bytes(&on_chip->kept[i], keep_points);
    return bytes;
}

int32_t md_cg_row_lane(const md_cg_row_options *options)
{
    const md_st_stage *st = &options->program->stage[options->stage];
    return options->is_column ? st->outer[st->n_outer - 1] : st->axis;
}
