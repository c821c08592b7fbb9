/* SPDX-License-Identifier: Apache-2.0
 *
 * One binary for every x86-64: a function marked CADRE_CLONES is compiled once for each level of
 * vectors and chosen when the program is loaded. Other processors and compilers, and sanitizers
 * (their run-time is not up yet when the choice is made), get one plain version.
 */
#ifndef CADRE_BASE_CLONES_H
#define CADRE_BASE_CLONES_H

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) &&                             \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CADRE_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CADRE_CLONES
#endif

#endif
