/* What the form of the cost model leaves of a kernel's time, as measured: for each family a sum of small trees, which
 * tools/fit_trees makes of recorded times (tree_table.h). */
#ifndef MD_TUNE_MODEL_TREES_H
#define MD_TUNE_MODEL_TREES_H

#include "family/family.h"

/* What trees ask about: a config's fields as they are, what its features say, sizes, and how the config divides
 * them. */
enum {
    MD_TN_TREE_FIELD,
    MD_TN_TREE_US = MD_TN_TREE_FIELD + MD_FA_MAX_FIELDS, /* by the form */
    MD_TN_TREE_SERIAL,
    MD_TN_TREE_MEMORY,
    MD_TN_TREE_CACHE,
    MD_TN_TREE_OPS,
    MD_TN_TREE_FUNCTIONS,
    MD_TN_TREE_RATE,
    MD_TN_TREE_PARALLEL,
    MD_TN_TREE_ROWS,
    MD_TN_TREE_COLUMNS,
    MD_TN_TREE_DEPTH,
    MD_TN_TREE_BATCH,
    MD_TN_TREE_ROWS_TWOS, /* the largest power of two that divides them, up to 64 */
    MD_TN_TREE_COLUMNS_TWOS,
    MD_TN_TREE_DEPTH_TWOS,
    MD_TN_TREE_POINTS,
    MD_TN_TREE_BYTES_EACH, /* of an element of the operands and results */
    MD_TN_TREE_OPS_EACH, /* of a product: beside multiplying, of a result */
    MD_TN_TREE_DOWN, /* blocks from top to bottom, across and along K; parts of a block count, and: how full they are */
    MD_TN_TREE_DOWN_FULL,
    MD_TN_TREE_ACROSS,
    MD_TN_TREE_ACROSS_FULL,
    MD_TN_TREE_DEEP,
    MD_TN_TREE_LOAD, /* blocks on an SM, and how full the last of these is */
    MD_TN_TREE_LOAD_FULL,
    MD_TN_TREE_TURNS, /* of a row's, or K's, lanes; how full they are; vectors of a lane */
    MD_TN_TREE_TURNS_FULL,
    MD_TN_TREE_LANE_VECTORS,
    MD_TN_TREE_THREAD_ROWS, /* over the threads of a block */
    MD_TN_TREE_THREAD_VECTORS,
    MD_TN_TREE_INPUTS
};

enum { MD_TN_TREE_DEPTH_OF = 5, MD_TN_TREE_LEAVES = 1 << MD_TN_TREE_DEPTH_OF };

/* All nodes of one depth ask the same question: the answers are the bits of a leaf's number, the first the highest. */
typedef struct md_tn_tree {
    uint8_t input[MD_TN_TREE_DEPTH_OF];
    float above[MD_TN_TREE_DEPTH_OF]; /* true above */
    int8_t leaf[MD_TN_TREE_LEAVES]; /* of log(measured / form), in parts of MD_TN_TREE_PARTS */
} md_tn_tree;
enum { MD_TN_TREE_PARTS = 512 };

/* Beyond the sizes that the trees have seen what they say fades, to nothing at two octaves: the time by the form, rows,
 * columns, K, batch, and what each element takes. */
enum { MD_TN_TREE_SEEN = 7 };

typedef struct md_tn_forest {
    const char *family;
    int32_t align; /* the value of its field of that name, as each is a kernel of its own; -1: it has none */
    int32_t n;
    const md_tn_tree *tree;
    float from[MD_TN_TREE_SEEN], to[MD_TN_TREE_SEEN];
} md_tn_forest;

/* A factor is within these. */
#define MD_TN_TREE_LEAST 0.83
#define MD_TN_TREE_MOST 2.5

/* A config at some sizes, and what the form says of it. */
typedef struct md_tn_question {
    const md_fa_target *target;
    const md_fa_config *config;
    const int64_t *size;
    const md_fa_features *features;
    double us; /* by the form, without a device's factor */
} md_tn_question;

typedef struct md_tn_trees md_tn_trees;
/** The trees of a family on a device; NULL: there are none, and the form's time is all. */
const md_tn_trees *md_tn_trees_of(const md_dev_facts *facts, const md_fa_family *family);
/** By what the form's time is multiplied; 1 for what was not measured. */
double md_tn_trees_factor(const md_tn_trees *trees, const md_tn_question *question);
/** What trees of the family are asked about, whether it has any or not: for tools/fit_trees. */
void md_tn_tree_inputs(float out[MD_TN_TREE_INPUTS], const md_fa_family *family, const md_tn_question *question);
/** The factor by a forest. */
double md_tn_forest_factor(const md_tn_forest *forest, const float input[MD_TN_TREE_INPUTS]);

#endif
