/** The name of the only sealer, and the subject of its alerts. */
export const SEALER_NAME = "journal";
