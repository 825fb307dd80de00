/* The variants that the gate compiles, and what it asks of their launches. */
#ifndef MD_TESTS_CUDA_GATE_H
#define MD_TESTS_CUDA_GATE_H

#include "device/nvrtc/nvrtc.h"
#include "family/family.h"

enum { GATE_SIZES = 10 };

typedef struct gate_case {
    const char *op; /* a name of the catalogue, or a formula */
    md_dtype dtype;
    const md_st_program *program;
    int32_t stage;
    const md_dev_facts *facts;
    const md_fa_family *family;
    md_fa_config config;
    int32_t op_id;
    bool is_pooled; /* the model's choice of its family at one of the sizes: what dispatch compiles */
} gate_case;

typedef struct gate_list {
    int32_t n, n_pooled, capacity;
    gate_case *at;
    int32_t n_programs;
    md_fx_formula *formula[512];
    md_st_program *program[512];
} gate_list;

/** All: operations x dtypes x architectures x families x configs that are legal at some hint. `only` (may be NULL):
 * those whose operation, family or architecture has this name. `seed` (may be NULL): of each operation, only one
 * dtype and architecture. */
md_status gate_list_make(gate_list *out, const char *only, const uint64_t *seed);
void gate_list_finish(gate_list *list);
/** Shuffles the list so that the pools come first (n_pooled), and a sample of everything in front of them; returns
 * how many that are. */
int32_t gate_list_sample(gate_list *list, uint64_t seed);
/** Sizes of dims, by dim id, at which configs are tried: the default hints, few long and many short rows. */
void gate_sizes(int64_t out[MD_FX_MAX_DIMS], const md_fx_formula *formula, int32_t i);
/** COMPILE where the kernel could not be launched with the geometry that the family gives at one of the sizes. */
md_status gate_check_launch(const gate_case *c, const md_kn_launch_source *source, int32_t launch,
                            const md_dev_cubin *cubin);

#endif
