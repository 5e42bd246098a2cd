declare namespace Cloudflare {
  interface Env {
    /** migrations/, as the setup file applies it. */
    TEST_MIGRATIONS: import("@cloudflare/vitest-plugin").D1Migration[];
    /** A database for tests that fill one, which would disturb the tests that share `DB`. */
    SPARE_DB: D1Database;
    DELIVERED_DB: D1Database;
    OUTBOUND_DB: D1Database;
    HEARTBEAT_DB: D1Database;
    DAMAGED_DB: D1Database;
    /** A database with rows on which checks throw. */
    UNREADABLE_DB: D1Database;
    /** A database whose audit log is put back. */
    AUDIT_DB: D1Database;
    /** A database with many audit events. */
    LISTED_DB: D1Database;
    /** A database whose journal is sealed. */
    SEALED_DB: D1Database;
    /** A database whose archive is damaged. */
    VERIFIED_DB: D1Database;
    /** A database whose sealed transfers are deleted. */
    RELEASED_DB: D1Database;
    SCANNED_DB: D1Database;
    /** A database whose older entries are in the archive only. */
    COLD_DB: D1Database;
    RECORDS_DB: D1Database;
    SEALER_DB: D1Database;
    /** A database whose sealer is stopped. */
    ALERTED_DB: D1Database;
    /** A database whose schema is changed. */
    DRIFTED_DB: D1Database;
    /** A database of which cron has seen nothing. */
    BACKLOG_DB: D1Database;
    /** A database whose rows of sealed owners are edited. */
    OWNERS_DB: D1Database;
    /** A database whose alerts and switches a test sets. */
    LEVELS_DB: D1Database;
    AHEAD_DB: D1Database;
    /** A database whose matches are of three days. */
    CANDLES_DB: D1Database;
    LIABLE_DB: D1Database;
    /** A database with rows that are edited one by one. */
    EDITED_DB: D1Database;
  }
}

declare module "*.md?raw" {
  const text: string;
  export default text;
}

declare module "*.toml?raw" {
  const text: string;
  export default text;
}
