import { stepUpOrRecover } from "../account/step-up.tsx";
import { TextField } from "../ui/form.tsx";
import { LoginForm } from "./login-form.tsx";
import { useSignIn } from "./session.tsx";

export function SignIn() {
  const signIn = useSignIn();
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
