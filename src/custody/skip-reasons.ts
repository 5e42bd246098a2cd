/** Values of `reason` in Vault.sol's `Skipped` event. */
export const ALREADY_DONE = 1;
export const SHORT = 2;
export const OVER_LIMIT = 3;
/** The token refuses the transfer to anybody. */
export const REFUSED = 5;
