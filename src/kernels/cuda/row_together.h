/* Several rows of single elements at once, in groups inside a warp: rows are short, so loads of one alone would leave
 * memory idle. Rows of a block lie side by side. The rows' parts meet together: in the first steps a lane gives those
 * of half of its rows away, and gets as many of the others. So each lane ends with the results of one row, its own,
 * and what comes once for a row (the results' last operations, their stores) runs once for all rows of the group. */
#ifndef MD_CUDA_ROW_TOGETHER_H
#define MD_CUDA_ROW_TOGETHER_H

enum { MD_OWNERS = MD_GROUP / MD_AT_ONCE }; /* lanes that a row of the group has for its own */

template <class T> MD_INLINE T md_either(bool first, const T &a, const T &b)
{
    union {
        T t;
        uint32_t w[sizeof(T) / 4];
    } r = {a}, other = {b};
    MD_FOR (i, (int)(sizeof(T) / 4))
        r.w[i] = first ? r.w[i] : other.w[i];
    return r.t;
}
/* Combines parts of `n` rows over `apart` * 2 lanes into part[0], that of the lane's own row. */
template <int n, int apart, class P, class Combine> MD_INLINE void md_meet(P *part, int lane, Combine combine)
{
    if constexpr (apart > 0) {
        const bool is_upper = (lane & apart) != 0;
        MD_FOR (u, n > 1 ? n / 2 : 1) {
            const P given = n > 1 ? md_either(is_upper, part[u], part[u + n / 2]) : part[u];
            if (n > 1)
                part[u] = md_either(is_upper, part[u + n / 2], part[u]);
            const P from = md_shfl_xor(given, apart);
            combine(&part[u], &from);
        }
        md_meet<(n > 1 ? n / 2 : 1), apart / 2>(part, lane, combine);
    }
}
/* That of the lane's own row, of parts that all lanes have. */
template <class P> MD_INLINE P md_own_of(const P *part, int lane)
{
    P own = part[0];
    MD_FOR (u, MD_AT_ONCE)
        own = md_either(lane / MD_OWNERS == u, part[u], own);
    return own;
}

template <int md_own> struct md_held {
    md_row row;
    md_layout at;
    md_elem elem[md_own];
};
/* Where the length is sure the rows are there, too. */
#define MD_NUMBER(turn)                                                                                                \
    const int64_t own_number = md_number_of(turf, turn),                                                               \
                  number = md_sure > 0 || own_number < turf.rows ? own_number : turf.rows - 1;                         \
    MD_ROW_AT(p, number);
#define MD_HELD(u)                                                                                                     \
    md_row &row = held[u].row;                                                                                         \
    md_layout &at = held[u].at;                                                                                        \
    md_elem(&elem)[md_own] = held[u].elem;                                                                             \
    MD_NUMBER(u)

/* Level l of all rows: `mine` gets the results of the lane's own row; all lanes get those of all rows, if passes over
 * elements follow. */
#define MD_MEET_LEVEL(l)                                                                                               \
    {                                                                                                                  \
        md_part##l part[MD_AT_ONCE];                                                                                   \
        MD_FOR (u, MD_AT_ONCE) {                                                                                       \
            MD_HELD(u)                                                                                                 \
            MD_ADD_VECTORS(l)                                                                                          \
            md_fold##l(&part[u], &acc);                                                                                \
            if (MD_TREE_IS_SHORT##l)                                                                                   \
                md_tree##l(&part[u], MD_GROUP);                                                                        \
        }                                                                                                              \
        if (!MD_TREE_IS_SHORT##l)                                                                                      \
            md_meet<MD_AT_ONCE, MD_GROUP / 2>(part, lane,                                                              \
                                              [](md_part##l *a, const md_part##l *b) { md_combine##l(a, b); });        \
        const bool all_go_on = MD_HAS_ELEMENTS || l + 1 < MD_N_LEVELS;                                                 \
        const md_part##l own = MD_TREE_IS_SHORT##l ? md_own_of(part, lane) : part[0];                                  \
        MD_FOR (u, all_go_on && !MD_TREE_IS_SHORT##l ? MD_AT_ONCE : 0)                                                 \
            part[u] = md_shfl(own, md_lane_id() - lane + u * MD_OWNERS);                                               \
        MD_FOR (u, all_go_on ? MD_AT_ONCE : 0) {                                                                       \
            MD_HELD(u)                                                                                                 \
            md_finish##l(MD_X p, &row, &part[u]);                                                                      \
        }                                                                                                              \
        MD_NUMBER(lane / MD_OWNERS)                                                                                    \
        md_finish##l(MD_X p, &mine, &own);                                                                             \
    }

/* Weights that all rows share are loaded once, as far as the longest row goes, into the first row's elements. */
template <int md_own, int md_sure>
MD_INLINE void md_fetch_weights(const md_params *p, md_held<md_own> (&held)[MD_AT_ONCE], const md_turf &turf)
{
    md_layout at = held[0].at;
    MD_FOR (u, MD_AT_ONCE)
        at.left = held[u].at.left > at.left ? held[u].at.left : at.left;
    MD_NUMBER(0)
    MD_FOR (i, md_own)
        MD_WHERE(i)
    md_fetch_epilogue(MD_X p, &held[0].elem[i], at.first + i * MD_STEP, MD_ALL(i));
    MD_FOR (u, MD_AT_ONCE)
        MD_FOR (i, md_own)
            held[u].elem[i] = held[0].elem[i];
}

/* What has a place along the rows. */
template <int md_own, int md_sure>
MD_INLINE void md_store_elements(const md_params *p, md_held<md_own> (&held)[MD_AT_ONCE], const md_turf &turf)
{
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        if (md_sure == 0 && own_number >= turf.rows)
            return;
        md_derive(MD_X p, &row);
        MD_FORGET
        MD_FOR (i, md_own) {
            MD_WHERE(i)
            md_out(MD_X p, &row, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
        }
    }
}

template <int md_own, int md_sure> MD_INLINE void md_rows_with(const md_params *p, const md_turf &turf, int lane)
{
    md_held<md_own> held[MD_AT_ONCE];
    md_row mine;
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        md_start(MD_X p, &row);
        at = md_lay_out(row.count, 0, lane);
    }
    if (MD_HAS_ELEMENTS)
        md_fetch_weights<md_own, md_sure>(p, held, turf);
    MD_FOR (u, MD_AT_ONCE) {
        MD_HELD(u)
        MD_FOR (i, md_own)
            MD_WHERE(i)
        md_fetch(MD_X p, &elem[i], at.first + i * MD_STEP, MD_ALL(i));
    }
    MD_LOADS_FIRST;
    {
        MD_NUMBER(lane / MD_OWNERS)
        md_start(MD_X p, &mine);
        MD_DERIVE_EARLY(&mine)
    }
    MD_LEVELS(MD_MEET_LEVEL)
    if (MD_HAS_ELEMENTS)
        md_store_elements<md_own, md_sure>(p, held, turf);
    MD_NUMBER(lane / MD_OWNERS)
    if (lane % MD_OWNERS != 0 || (md_sure == 0 && own_number >= turf.rows))
        return;
    md_derive(MD_X p, &mine);
    md_row_store(MD_X p, &mine);
}
template <int md_own>
MD_INLINE void md_rows_by_length(const md_params *p, const md_turf &turf, int lane, md_pos least, md_pos most)
{
    if constexpr (md_own <= MD_LEAST_OWN)
        md_rows_with<MD_VECTORS, 0>(p, turf, lane);
    else if (md_are_sure(least, most, md_own))
        md_rows_with<md_own, md_own - MD_UNSURE>(p, turf, lane);
    else
        md_rows_by_length<md_own - MD_UNSURE>(p, turf, lane, least, most);
}
MD_INLINE void md_rows_at_once(const md_params *p, const md_turf &turf, int lane)
{
    enum { md_sure = 0 };
    md_pos least = 0, most = 0;
    MD_FOR (u, MD_AT_ONCE) {
        MD_NUMBER(u)
        md_row row;
        md_start(MD_X p, &row);
        least = u == 0 || row.count < least ? row.count : least;
        most = row.count > most ? row.count : most;
    }
    if (md_number_of(turf, MD_AT_ONCE - 1) >= turf.rows)
        least = -1;
    md_rows_by_length<MD_VECTORS>(p, turf, lane, least, most);
}

#endif
