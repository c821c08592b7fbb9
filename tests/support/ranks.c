/* SPDX-License-Identifier: Apache-2.0 */
typedef int cadre_ranks_support_to_come;
