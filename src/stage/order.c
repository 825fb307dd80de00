/* Orders of products: dynamic programming over sets of operands where they are few, else the pair that makes the
 * smallest result first. */
#include "stage/order.h"

#include <math.h>

enum {
    MAX_EXACT = 8,
    STORED = 4 /* an element of a temporary, written and read again, costs as many operations */
};

static uint32_t all_of(const md_st_network *network)
{
    return network->n == 32 ? UINT32_MAX : (UINT32_C(1) << network->n) - 1;
}

static uint32_t letters_of(const md_st_network *network, uint32_t set)
{
    uint32_t letters = 0;
    for (; set; set &= set - 1)
        letters |= network->operand[__builtin_ctz(set)];
    return letters;
}

uint32_t md_st_left(const md_st_network *network, uint32_t set)
{
    return letters_of(network, set) & (network->kept | letters_of(network, all_of(network) & ~set));
}

/* The product of the sizes of the letters. */
static double volume_of(const md_st_network *network, int32_t point, uint32_t letters)
{
    double volume = 1;
    for (; letters; letters &= letters - 1)
        volume *= network->size[point][__builtin_ctz(letters)];
    return volume;
}

/* A sum stores its result, unless it is the last one. */
static void add_sum(md_st_path_work *work, const md_st_network *network, int32_t point, uint32_t set)
{
    const double elements = set == all_of(network) ? 0 : volume_of(network, point, md_st_left(network, set));
    work->stored += elements;
    work->largest = fmax(work->largest, elements);
}

static void add_operand(md_st_path_work *work, const md_st_network *network, int32_t point, int32_t i)
{
    const uint32_t set = UINT32_C(1) << i;
    if (md_st_left(network, set) == network->operand[i])
        return;
    work->operations += volume_of(network, point, network->operand[i]);
    add_sum(work, network, point, set);
}

/* Without a sum a product is part of what reads it: one multiplication more for each of its elements. */
static void add_step(md_st_path_work *work, const md_st_network *network, int32_t point, uint32_t first,
                     uint32_t second)
{
    const uint32_t over = md_st_left(network, first) | md_st_left(network, second);
    const bool sums = over != md_st_left(network, first | second);
    work->operations += (sums ? 2 : 1) * volume_of(network, point, over);
    if (sums)
        add_sum(work, network, point, first | second);
}

double md_st_written_operations(const md_st_network *network, const md_st_levels *levels, int32_t point)
{
    double sum = 0;
    for (int32_t i = 0; i < levels->n; i++)
        sum += (levels->factors[i] > 0 ? levels->factors[i] : 1) * volume_of(network, point, levels->letters[i]);
    return sum;
}

md_st_path_work md_st_work_of(const md_st_network *network, const md_st_path *path, int32_t point)
{
    md_st_path_work work = {0, 0, 0};
    for (int32_t i = 0; i < network->n; i++)
        add_operand(&work, network, point, i);
    for (int32_t i = 0; i < path->n; i++)
        add_step(&work, network, point, path->first[i], path->second[i]);
    return work;
}

double md_st_cost_of(const md_st_path_work *work)
{
    return work->operations + STORED * work->stored;
}

int32_t md_st_count_sums(const md_st_network *network, const md_st_path *path)
{
    int32_t n = 0;
    for (int32_t i = 0; i < network->n; i++)
        n += md_st_left(network, UINT32_C(1) << i) != network->operand[i];
    for (int32_t i = 0; i < path->n; i++)
        n += (md_st_left(network, path->first[i]) | md_st_left(network, path->second[i])) !=
             md_st_left(network, path->first[i] | path->second[i]);
    return n;
}

/* ---- exact ---- */

typedef struct sets {
    double cost[1 << MAX_EXACT]; /* of a set's product, without that of single operands */
    uint32_t second[1 << MAX_EXACT]; /* the part that is multiplied last */
} sets;

static void try_parts(sets *s, const md_st_network *network, int32_t point, uint32_t set, uint32_t second)
{
    const uint32_t first = set & ~second;
    md_st_path_work work = {0, 0, 0};
    add_step(&work, network, point, first, second);
    const double cost = s->cost[first] + s->cost[second] + md_st_cost_of(&work);
    if (s->second[set] && !(cost < s->cost[set] * (1 - 1e-9)))
        return;
    s->cost[set] = cost;
    s->second[set] = second;
}

/* Adds the steps of a set; those of its parts come first. */
static void add_steps(md_st_path *out, const sets *s, uint32_t set)
{
    if (!(set & (set - 1)))
        return;
    const uint32_t second = s->second[set];
    add_steps(out, s, set & ~second);
    add_steps(out, s, second);
    out->first[out->n] = set & ~second;
    out->second[out->n++] = second;
}

static void exact_path(md_st_path *out, const md_st_network *network, int32_t point)
{
    sets s = {{0}, {0}};
    for (uint32_t set = 1; set <= all_of(network); set++) {
        const uint32_t lowest = set & -set, rest = set & ~lowest;
        if (!rest)
            continue;
        try_parts(&s, network, point, set,
                  UINT32_C(1) << (31 - __builtin_clz(rest))); /* of equal costs the order as written is taken */
        for (uint32_t second = rest; second; second = (second - 1) & rest)
            try_parts(&s, network, point, set, second);
    }
    out->n = 0;
    add_steps(out, &s, all_of(network));
}

/* ---- greedy ---- */

static double growth(const md_st_network *network, int32_t point, uint32_t a, uint32_t b)
{
    return volume_of(network, point, md_st_left(network, a | b)) - volume_of(network, point, md_st_left(network, a)) -
           volume_of(network, point, md_st_left(network, b));
}

static void greedy_path(md_st_path *out, const md_st_network *network, int32_t point)
{
    uint32_t part[MD_ST_MAX_OPERANDS];
    int32_t n = network->n;
    for (int32_t i = 0; i < n; i++)
        part[i] = UINT32_C(1) << i;
    for (out->n = 0; n > 1; n--) {
        int32_t a = 0, b = 1;
        double least = INFINITY;
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = i + 1; k < n; k++) {
                const double g = growth(network, point, part[i], part[k]);
                if (g < least) {
                    least = g;
                    a = i;
                    b = k;
                }
            }
        out->first[out->n] = part[a];
        out->second[out->n++] = part[b];
        part[a] |= part[b];
        part[b] = part[n - 1];
    }
}

/* ---- over several points ---- */

static void path_of(md_st_path *out, const md_st_network *network, int32_t point)
{
    if (network->n <= MAX_EXACT)
        exact_path(out, network, point);
    else
        greedy_path(out, network, point);
}

static double mean_log_cost(const md_st_network *network, const md_st_path *path)
{
    double sum = 0;
    for (int32_t p = 0; p < network->n_points; p++) {
        const md_st_path_work work = md_st_work_of(network, path, p);
        sum += log(fmax(1, md_st_cost_of(&work)));
    }
    return sum / network->n_points;
}

void md_st_best_path(md_st_path *out, const md_st_network *network)
{
    double least = INFINITY;
    for (int32_t p = 0; p < network->n_points; p++) {
        md_st_path path;
        path_of(&path, network, p);
        const double cost = mean_log_cost(network, &path);
        if (cost < least) {
            least = cost;
            *out = path;
        }
    }
}
