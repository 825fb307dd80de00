/* A configuration of product templates, so that each compiles alone. What the library compiles has its own
 * (src/family). */
#ifndef MD_CONFIGURED
#define MD_CONFIGURED 1
#define MD_VL 16
#define MD_ACC_F32 1
#define MD_USE_F32 1
#define MD_PRODUCTS 1
/* gemm.c */
#define MD_ROWS 12
#define MD_VECS 2
#define MD_BLOCK 480
#define MD_WIDTH 2048
#define MD_GROUP 4
#define MD_NEAR 262144
/* gemv.c, epilogue.c */
#define MD_MAX_ROWS 8
#define MD_COLUMNS 128
#define MD_ALONG_DEPTH 1
/* both */
#define MD_DEPTH 256
#endif
