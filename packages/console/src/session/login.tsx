/** Signing in, and renewing the session before it ends. */
import { Problem } from "@rfq-custody/client";
import { type ComponentProps, useEffect, useState } from "react";
import { CodeField, Form, type FormValues, PasswordField, TextField } from "../ui/form.tsx";
import { stepUpOrRecover } from "../account/step-up.tsx";
import { type SignedOutProps, useSession } from "./session.tsx";
import { useConnection } from "../live/live.tsx";

/** Asks for a code once the service has asked for one. */
function LoginForm({ submit, children, ...form }: ComponentProps<typeof Form>) {
  const [needsCode, setNeedsCode] = useState(false);
  const logIn = (values: FormValues) =>
    submit(values).catch((error: unknown) => {
      if (error instanceof Problem && error.code.startsWith("totp_")) setNeedsCode(true);
      throw error;
    });
  return (
    <Form {...form} submit={logIn}>
      {children}
      <PasswordField />
      {needsCode ? <CodeField recovery /> : null}
    </Form>
  );
}

export function SignIn({ signIn }: SignedOutProps) {
  return (
    <section className="card sign-in" aria-label="Sign in">
      <h2>Sign in</h2>
      <p>Ask for quotes, make markets and hold balances.</p>
      <LoginForm
        label="Sign in"
        action="Sign in"
        submit={(values) => signIn({ email: values.text("email"), ...stepUpOrRecover(values) })}
      >
        <TextField name="email" label="Email" type="email" autoComplete="username" required />
      </LoginForm>
      <p className="hint">
        The session is kept in this page only. Reloading the page signs you out.
      </p>
    </section>
  );
}

/** The session is renewed this long before it ends. */
const WARN_MS = 120_000;

/** Asks for the password again before the session ends, and when it has. What is shown stays. */
export function RenewSession() {
  const { session, renew, signOut, email } = useSession();
  const [due, setDue] = useState(false);
  const ended = useConnection() === "ended";
  useEffect(() => {
    setDue(false);
    // From the lifetime and not from `expires_at`, because this clock may be wrong.
    const life = session.expires_in * 1_000;
    const timer = setTimeout(() => setDue(true), Math.max(life - WARN_MS, life / 2));
    return () => clearTimeout(timer);
  }, [session]);
  if (!due && !ended) return null;
  return (
    <section className="card notice" aria-label="Renew the session" role="alert">
      <p>
        Your session {ended ? "has ended" : "ends soon"}. Enter the password of {email} to go on, or{" "}
        <button type="button" className="link" onClick={signOut}>
          sign out
        </button>
        .
      </p>
      <LoginForm
        label="Renew the session"
        action="Go on"
        submit={(values) => renew(stepUpOrRecover(values))}
      />
    </section>
  );
}
