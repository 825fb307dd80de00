/* The text of md_chain_span: which keys a few rows need, and which of them need no mask. */
#include "codegen/chain/chain.h"

#include "expr/node.h"

static bool is_row_index(const md_st_chain *c, const md_fx_node *term)
{
    if (!term || term->kind != MD_FX_INDEX)
        return false;
    for (int32_t i = 0; i < c->n_rows; i++)
        if (c->rows[i] == term->id)
            return true;
    return c->share > 1 && c->share_index == term->id;
}

/* True if a term differs among the rows of a batch by more than a row index. */
static bool differs_by_row(const md_st_chain *c, const md_fx_node *term)
{
    if (!term || is_row_index(c, term))
        return false;
    return md_fx_uses_any_index(term, c->n_rows, c->rows) || (c->share > 1 && md_fx_uses_index(term, c->share_index));
}

/* True if a bound must be asked of each row: it differs among them by more than a row index. */
static bool is_by_row(const md_st_chain *c, const md_st_bound *b)
{
    for (int32_t i = 0; i < b->n; i++)
        if (differs_by_row(c, b->term[i].term))
            return true;
    return false;
}

bool md_cg_chain_looks_up_rows(const md_st_chain *c)
{
    for (int32_t i = 0; i < c->n_bounds; i++)
        if (is_by_row(c, &c->bound[i]))
            return true;
    return false;
}

/* The lowest and highest value of each row index in rows row .. end-1: all of them where a slower index changes. */
static void print_row_ranges(md_strbuf *out, const md_cg_chain *chain)
{
    const md_st_chain *c = chain->c;
    char size[32];
    md_strbuf_add(out, "md_chain_int first = (md_chain_int)row, last = (md_chain_int)(end - 1);\n");
    for (int32_t i = c->n_rows - 1; i >= 0; i--) {
        int id = (int)c->rows[i];
        md_cg_size(size, chain->program, id);
        if (i == 0 && c->share == 1) {
            md_strbuf_printf(out, "const int64_t lo%d = first, hi%d = last;\n(void)lo%d, (void)hi%d;\n", id, id, id,
                             id);
            continue;
        }
        md_strbuf_printf(out,
                         "const md_chain_int n%d = (md_chain_int)%s, from%d = first / n%d, to%d = last / n%d;\n"
                         "const int64_t lo%d = from%d == to%d ? first - from%d * n%d : 0, hi%d = from%d == to%d ? last "
                         "- to%d * n%d : n%d - 1;\nfirst = from%d;\nlast = to%d;\n(void)lo%d, (void)hi%d;\n",
                         id, size, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id, id);
    }
    if (c->share > 1)
        md_strbuf_printf(out, "const int64_t lo%d = x%d + first, hi%d = x%d + last;\n(void)lo%d, (void)hi%d;\n",
                         (int)c->share_index, (int)c->share_index, (int)c->share_index, (int)c->share_index,
                         (int)c->share_index, (int)c->share_index);
}

/* Bound i where it is highest (lowest) among the rows: most3, least3. */
static void print_bound(md_strbuf *out, md_cg *cg, const md_st_chain *c, int32_t which, bool highest)
{
    const md_st_bound *b = &c->bound[which];
    const char *value[MD_ST_MAX_BOUND_TERMS] = {NULL};
    for (int32_t i = 0; i < b->n; i++)
        if (b->term[i].term && !is_row_index(c, b->term[i].term)) {
            value[i] = md_cg_value(cg, b->term[i].term, NULL);
            if (!value[i])
                return;
        }
    md_strbuf_printf(out, "const int64_t %s%d = %s0", highest ? "most" : "least", (int)which, b->is_whole ? "(" : "");
    for (int32_t i = 0; i < b->n; i++) {
        const md_st_bound_term *t = &b->term[i];
        md_strbuf_printf(out, " + INT64_C(%lld)", (long long)t->coef);
        if (value[i])
            md_strbuf_printf(out, " * (int64_t)%s", value[i]);
        else if (t->term)
            md_strbuf_printf(out, " * %s%d", (t->coef > 0) == highest ? "hi" : "lo", (int)t->term->id);
    }
    md_strbuf_add(out, b->is_whole ? ") > 0 ? keys : 0;\n" : ";\n");
}

/* The same of a bound that must be asked of each row; on a GPU by the lanes of a warp together, or by one thread. */
static md_status print_row_bound(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain, int32_t which)
{
    const md_st_bound *b = &chain->c->bound[which];
    md_cg *cg = md_cg_chain_printer(chain, -1, MD_CG_STRIDED);
    if (!cg)
        return md_fail_memory();
    const bool is_shared = chain->dialect == MD_DEV_CUDA;
    md_strbuf_printf(out,
                     "md_chain_int most%d = 0, least%d = (md_chain_int)keys;\n"
                     "MD_ROLLED for (int64_t own = row%s; own < end; own += %s) {\n"
                     "const md_chain_row own_row = md_chain_row_of(p, b, own), *r = &own_row;\n",
                     (int)which, (int)which, is_shared ? " + (lanes > 1 ? threadIdx.x & 31 : 0)" : "",
                     is_shared ? "lanes" : "1");
    md_cg_chain_print_row(out, chain, "r");
    md_cg_begin(cg, out);
    const char *value[MD_ST_MAX_BOUND_TERMS] = {NULL};
    for (int32_t i = 0; i < b->n; i++)
        value[i] = b->term[i].term ? md_cg_value(cg, b->term[i].term, NULL) : "1";
    md_strbuf_add(out, b->is_whole ? "const int64_t at = (0" : "const int64_t at = 0");
    for (int32_t i = 0; i < b->n; i++)
        md_strbuf_printf(out, " + INT64_C(%lld) * (int64_t)%s", (long long)b->term[i].coef, value[i] ? value[i] : "");
    md_strbuf_add(out, b->is_whole ? ") > 0 ? keys : 0" : "");
    md_strbuf_printf(out,
                     ";\nconst md_chain_int limit = (md_chain_int)(at < 0 ? 0 : at > keys ? keys : at);\n"
                     "most%d = limit > most%d ? limit : most%d;\nleast%d = limit < least%d ? limit : least%d;\n}\n",
                     (int)which, (int)which, (int)which, (int)which, (int)which, (int)which);
    if (is_shared)
        md_strbuf_printf(out, "if (lanes > 1)\nmd_warp_range(most%d, least%d);\n", (int)which, (int)which);
    return md_cg_chain_end(defines, &cg);
}

static md_status print_bounds(md_strbuf *defines, md_strbuf *out, md_cg *cg, const md_cg_chain *chain)
{
    const md_st_chain *c = chain->c;
    for (int32_t i = 0; i < c->n_bounds; i++) {
        const bool by_row = is_by_row(c, &c->bound[i]);
        const char *outer = c->bound[i].is_end ? "end" : "begin", *wide = c->bound[i].is_end ? "most" : "least",
                   *tight = c->bound[i].is_end ? "least" : "most", *sign = c->bound[i].is_end ? "<" : ">";
        if (by_row)
            MD_TRY(print_row_bound(defines, out, chain, i));
        for (int32_t highest = 1; highest >= 0 && !by_row; highest--)
            print_bound(out, cg, c, i, highest == 1);
        md_strbuf_printf(out, "s.%s = %s%d %s s.%s ? %s%d : s.%s;\ns.open_%s = %s%d %s s.open_%s ? %s%d : s.open_%s;\n",
                         outer, wide, (int)i, sign, outer, wide, (int)i, outer, outer, tight, (int)i, sign, outer,
                         tight, (int)i, outer);
    }
    return MD_OK;
}

/* Where rows look bounds up, the lanes of a warp may ask for some of them each: before and behind the function. */
static const char warp_range[] =
    "#define MD_CHAIN_BY_ROW 1\n"
    "MD_INLINE void md_warp_range(md_chain_int &most, md_chain_int &least)\n{\n"
    "most = __reduce_max_sync(0xffffffffu, most);\nleast = __reduce_min_sync(0xffffffffu, least);\n}\n"
    "template <int lanes> ";
static const char one_lane[] =
    "MD_INLINE md_chain_keys_of md_chain_span(const md_params *p, const md_chain_batch *b, int64_t row, int64_t end)\n"
    "{\nreturn md_chain_span_by<1>(p, b, row, end);\n}\n";

md_status md_cg_chain_print_span(md_strbuf *defines, md_strbuf *out, const md_cg_chain *chain)
{
    const md_st_chain *c = chain->c;
    md_cg *cg = md_cg_chain_printer(chain, -1, MD_CG_STRIDED);
    md_status status = MD_OK;
    if (!cg)
        return md_fail_memory();
    const bool is_shared = chain->dialect == MD_DEV_CUDA && md_cg_chain_looks_up_rows(c);
    md_strbuf_add(
        out, "typedef struct md_chain_keys_of {\nint64_t begin, end, open_begin, open_end;\n} md_chain_keys_of;\n");
    md_strbuf_printf(
        out,
        "%sMD_INLINE md_chain_keys_of md_chain_span%s(const md_params *p, const md_chain_batch *b, int64_t "
        "row, int64_t end)\n{\nconst int64_t keys = md_chain_keys(p);\n"
        "md_chain_keys_of s = {0, keys, 0, keys};\n(void)b, (void)row, (void)end;\n",
        is_shared ? warp_range : "", is_shared ? "_by" : "");
    if (c->n_bounds > 0) {
        md_cg_chain_print_batch(out, chain, "b");
        print_row_ranges(out, chain);
        md_cg_begin(cg, out);
        status = print_bounds(defines, out, cg, chain);
    }
    if (!c->is_bounded)
        md_strbuf_add(out, "s.open_end = s.open_begin;\n");
    md_strbuf_add(out,
                  "s.end = s.end < s.begin ? s.begin : s.end;\n"
                  "s.open_begin = s.open_begin < s.begin ? s.begin : s.open_begin > s.end ? s.end : s.open_begin;\n"
                  "s.open_end = s.open_end < s.open_begin ? s.open_begin : s.open_end > s.end ? s.end : s.open_end;\n"
                  "return s;\n}\n");
    if (is_shared)
        md_strbuf_add(out, one_lane);
    const md_status printed = md_cg_chain_end(defines, &cg);
    return status != MD_OK ? status : printed;
}
