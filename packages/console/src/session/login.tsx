/** Signing in, or making an account where the service lets anybody. */
import { useState } from "react";
import { stepUpOrRecover } from "../account/step-up.tsx";
import { useConfig } from "../markets.ts";
import { CheckField, PasswordField, TextField } from "../ui/form.tsx";
import { LoginForm } from "./login-form.tsx";
import { useDoor } from "./session.tsx";

/** `back`: the page to go on with. Without it this page goes on. */
export default function SignIn({ back }: { back?: string }) {
  const { signIn } = useDoor();
  const config = useConfig();
  const [isNew, setNew] = useState(false);
  const title = isNew ? "Make an account" : "Sign in";
  return (
    <section className="card sign-in" aria-label={title}>
      <h1>{title}</h1>
      <p>Ask for quotes, make markets and hold balances.</p>
      <LoginForm
        key={title}
        label={title}
        action={title}
        submit={async (values) => {
          const credentials = { email: values.text("email"), ...stepUpOrRecover(values) };
          await signIn(credentials, { isNew, stay: values.has("stay") });
          if (back !== undefined) location.hash = back;
        }}
      >
        <TextField name="email" label="Email" type="email" autoComplete="username" required />
        {isNew ? (
          <TextField
            name="password"
            label="Password"
            type="password"
            autoComplete="new-password"
            hint="Several words are better than one."
            required
          />
        ) : (
          <PasswordField />
        )}
        <CheckField label="Stay signed in when this tab is reloaded" name="stay" />
      </LoginForm>
      {config === undefined ? null : config.registration_open ? (
        <button type="button" className="link" onClick={() => setNew(!isNew)}>
          {isNew ? "Sign in instead" : "Make an account"}
        </button>
      ) : (
        <p className="hint">The operator makes the accounts. Ask them for one.</p>
      )}
      <p className="hint">
        {isNew ? "" : "Forgotten the password? Only the operator can reset it. "}
        Other tabs of this console share the session. Nothing else keeps it, unless you choose so.
      </p>
    </section>
  );
}
